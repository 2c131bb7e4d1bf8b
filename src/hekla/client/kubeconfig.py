"""From a kubeconfig file to a Client.

Understood: `KUBECONFIG` (several files), contexts, server certificates inline or by file, bearer tokens (inline or
by file), client certificates, exec credential plugins, `insecure-skip-tls-verify`, `tls-server-name`; for our own
components, `server: unix:///path/to/socket`; and, in a pod of a cluster with no kubeconfig at all, the pod's own
service account.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from hekla.client.joining import JoiningTransport
from hekla.client.rest import Client
from hekla.client.tls import ResumingContext
from hekla.client.tokens import Credential, ExecToken, FileToken, FixedToken, TokenSource
from hekla.client.transport import HttpTransport
from hekla.clock import SystemClock
from hekla.errors import UsageError

Shape = TypeVar("Shape", list[Any], dict[str, Any], str)

_SHAPES: Mapping[Any, str] = {list: "a list", dict: "a mapping", str: "text"}
_SECTIONS = {"contexts": "context", "clusters": "cluster", "users": "user"}
_TEXTS = (
    "certificate-authority",
    "certificate-authority-data",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "tokenFile",
)
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoKubeconfig(UsageError):
    """None of the files is there, and this is no pod of a cluster."""


@dataclass(frozen=True, slots=True)
class Access:
    """Everything needed to reach one cluster as one user."""

    server: str
    namespace: str = "default"
    ca_data: bytes | None = None
    verify: bool = True
    tls_server_name: str = ""
    tokens: TokenSource | None = None
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    source: str = ""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """What others have noted of the cluster, by whatever name they gave it."""


def default_paths(environment: Mapping[str, str]) -> list[Path]:
    given = environment.get("KUBECONFIG", "")
    if given:
        return [Path(part).expanduser() for part in given.split(os.pathsep) if part]
    return [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def load_access(paths: list[Path], *, context: str = "", environment: Mapping[str, str] | None = None) -> Access:
    """Read and merge the files (first mention of a name wins, as with kubectl) and resolve one context."""
    environment = os.environ if environment is None else environment
    documents = [_read(path) for path in paths if path.exists()]
    if not documents and environment.get("KUBERNETES_SERVICE_HOST") and not environment.get("KUBECONFIG"):
        return service_account_access(environment)
    if not documents:
        raise NoKubeconfig(
            f"no kubeconfig found at {', '.join(map(str, paths))}: "
            "start a local cluster with `hekla up`, or set KUBECONFIG"
        )
    chosen = context or next((str(doc["current-context"]) for _, doc in documents if doc.get("current-context")), "")
    entry, _ = _named(documents, "contexts", chosen, "context")
    cluster, cluster_dir = _named(documents, "clusters", str(entry.get("cluster", "")), "cluster")
    user, user_dir = (
        _named(documents, "users", str(entry.get("user", "")), "user") if entry.get("user") else ({}, Path())
    )
    asked = ExecToken(user["exec"], environment, SystemClock()) if user.get("exec") else None
    if asked is not None:
        user = _with_certificate(user, asked.credential)
    return Access(
        server=str(cluster.get("server", "")),
        namespace=str(entry.get("namespace") or "default"),
        ca_data=_bytes(cluster, "certificate-authority", cluster_dir),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        tokens=asked if asked is not None and asked.credential.token else _tokens(user, user_dir),
        client_certificate=_bytes(user, "client-certificate", user_dir),
        client_key=_bytes(user, "client-key", user_dir),
        source=", ".join(str(path) for path, _ in documents),
        extensions={str(noted.get("name")): noted.get("extension") for noted in cluster.get("extensions") or ()},
    )


def service_account_access(environment: Mapping[str, str], directory: Path = _SERVICE_ACCOUNT) -> Access:
    """How a pod reaches the API server of its own cluster."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=_read_bytes(directory / "namespace").decode().strip(),
        ca_data=_read_bytes(directory / "ca.crt"),
        tokens=FileToken(directory / "token", SystemClock()),
        source=f"the service account in {directory}",
    )


def connect(
    access: Access,
    *,
    user_agent: str = "hekla",
    connections: int = 64,
    on_warning: Callable[[str], None] | None = None,
) -> Client:
    """A client for `access`. Connections are opened when first needed, on the loop that uses them."""
    try:
        url = urlsplit(access.server)
    except ValueError:
        raise UsageError(f"{access.source}: cluster server {access.server!r} is no address") from None
    if url.scheme == "unix":
        transport = HttpTransport(
            "http://localhost", tokens=access.tokens, socket_path=unquote(url.path), connections=connections
        )
        return Client(JoiningTransport(transport), user_agent=user_agent, on_warning=on_warning)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise UsageError(f"{access.source}: cluster server {access.server!r} is not an http, https or unix address")
    try:
        tls = _tls_context(access) if url.scheme == "https" else None
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(f"{access.source}: a certificate or key in it cannot be read: {error}") from None
    transport = HttpTransport(
        access.server, tokens=access.tokens, tls=tls, server_name=access.tls_server_name, connections=connections
    )
    return Client(transport, user_agent=user_agent, on_warning=on_warning)


def client_from_files(paths: list[Path], *, context: str = "", user_agent: str = "hekla") -> Client:
    return connect(load_access(paths, context=context), user_agent=user_agent)


def _read(path: Path) -> tuple[Path, dict[str, Any]]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a kubeconfig") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not YAML: {error}") from error
    except (ValueError, LookupError, AttributeError):
        raise UsageError(f"{path}: a value is not what its tag says") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path}: not a kubeconfig")
    _require_shape(path, document)
    return path, document


def _require_shape(path: Path, document: dict[str, Any]) -> None:
    """Raises UsageError where an entry is of another shape than is read below."""
    for section, what in _SECTIONS.items():
        for index, entry in enumerate(_of(list, document.get(section), f"{path}: {section}")):
            where = f"{path}: {section}[{index}]"
            held = _of(dict, _of(dict, entry, where).get(what), f"{where}.{what}")
            _of(dict, held.get("exec"), f"{where}.{what}.exec")
            for noted in _of(list, held.get("extensions"), f"{where}.{what}.extensions"):
                _of(dict, noted, f"{where}.{what}.extensions[]")
            for name in _TEXTS:
                _of(str, held.get(name), f"{where}.{what}.{name}")


def _of(kind: type[Shape], value: object, where: str) -> Shape:
    """The value; an empty one where there is none."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise UsageError(f"{where}: must be {_SHAPES[kind]}, not {value!r}")
    return value


def _named(
    documents: list[tuple[Path, dict[str, Any]]], section: str, name: str, what: str
) -> tuple[dict[str, Any], Path]:
    for path, document in documents:
        for entry in document.get(section) or ():
            if entry.get("name") == name:
                return dict(entry.get(what) or {}), path.parent
    sources = ", ".join(str(path) for path, _ in documents)
    if not name:
        raise UsageError(f"{sources}: says no {what} to use; --context names a context")
    raise UsageError(f"{sources}: no {what} named {name!r}")


def _bytes(entry: dict[str, Any], key: str, directory: Path) -> bytes | None:
    if entry.get(f"{key}-data"):
        try:
            return base64.b64decode(entry[f"{key}-data"], validate=True)
        except ValueError as error:
            raise UsageError(f"kubeconfig: {key}-data is not base64") from error
    if entry.get(key):
        return _read_bytes(directory / entry[key])
    return None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _tokens(user: dict[str, Any], directory: Path) -> TokenSource | None:
    if user.get("token"):
        return FixedToken(str(user["token"]))
    if user.get("tokenFile"):
        return FileToken(directory / user["tokenFile"], SystemClock())
    return None


def _with_certificate(user: dict[str, Any], credential: Credential) -> dict[str, Any]:
    given = {"client-certificate-data": credential.certificate, "client-key-data": credential.key}
    return {**user, **{key: base64.b64encode(text.encode()).decode() for key, text in given.items() if text}}


def _tls_context(access: Access) -> ssl.SSLContext:
    context = ResumingContext.trusting(access.ca_data.decode() if access.ca_data else None)
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.client_certificate and access.client_key:
        # The ssl module reads certificates from files only; the folder is private and gone at once.
        with tempfile.TemporaryDirectory() as directory:
            certificate, key = Path(directory, "crt"), Path(directory, "key")
            certificate.write_bytes(access.client_certificate)
            key.touch(mode=0o600)
            key.write_bytes(access.client_key)
            context.load_cert_chain(certificate, key)
    return context
