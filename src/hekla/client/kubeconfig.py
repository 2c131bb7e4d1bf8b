"""From a kubeconfig file to a Client.

Understood: `KUBECONFIG` (several files), contexts, server certificates inline or by file, bearer tokens (inline or
by file), client certificates, exec credential plugins, `insecure-skip-tls-verify`, `tls-server-name`; and, for our own
components, `server: unix:///path/to/socket`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hekla.client.rest import Client
from hekla.client.transport import HttpTransport
from hekla.errors import UsageError

_EXEC_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Access:
    """Everything needed to reach one cluster as one user."""

    server: str
    namespace: str = "default"
    ca_data: bytes | None = None
    verify: bool = True
    tls_server_name: str = ""
    token: str = ""
    client_certificate: bytes | None = None
    client_key: bytes | None = None
    source: str = ""


def default_paths(environment: Mapping[str, str]) -> list[Path]:
    given = environment.get("KUBECONFIG", "")
    if given:
        return [Path(part).expanduser() for part in given.split(os.pathsep) if part]
    return [Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"]


def load_access(paths: list[Path], *, context: str = "", environment: Mapping[str, str] | None = None) -> Access:
    """Read and merge the files (first mention of a name wins, as with kubectl) and resolve one context."""
    documents = [_read(path) for path in paths if path.exists()]
    if not documents:
        raise UsageError(
            f"no kubeconfig found at {', '.join(map(str, paths))}: "
            "start a local cluster with `hekla up`, or set KUBECONFIG"
        )
    chosen = context or next((str(doc["current-context"]) for _, doc in documents if doc.get("current-context")), "")
    entry, _ = _named(documents, "contexts", chosen, "context")
    cluster, cluster_dir = _named(documents, "clusters", str(entry.get("cluster", "")), "cluster")
    user, user_dir = (
        _named(documents, "users", str(entry.get("user", "")), "user") if entry.get("user") else ({}, Path())
    )
    user = _with_exec_credential(user, environment if environment is not None else os.environ)
    return Access(
        server=str(cluster.get("server", "")),
        namespace=str(entry.get("namespace") or "default"),
        ca_data=_bytes(cluster, "certificate-authority", cluster_dir),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        token=_token(user, user_dir),
        client_certificate=_bytes(user, "client-certificate", user_dir),
        client_key=_bytes(user, "client-key", user_dir),
        source=", ".join(str(path) for path, _ in documents),
    )


def connect(
    access: Access,
    *,
    user_agent: str = "hekla",
    connections: int = 64,
    on_warning: Callable[[str], None] | None = None,
) -> Client:
    """A client for `access`. Connections are opened when first needed, on the loop that uses them."""
    url = urlsplit(access.server)
    if url.scheme == "unix":
        transport = HttpTransport("http://localhost", socket_path=unquote(url.path), connections=connections)
        return Client(transport, user_agent=user_agent, on_warning=on_warning)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise UsageError(f"{access.source}: cluster server {access.server!r} is not an http, https or unix address")
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    tls = _tls_context(access) if url.scheme == "https" else None
    transport = HttpTransport(
        access.server, headers=headers, tls=tls, server_name=access.tls_server_name, connections=connections
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
    if not isinstance(document, dict):
        raise UsageError(f"{path}: not a kubeconfig")
    return path, document


def _named(
    documents: list[tuple[Path, dict[str, Any]]], section: str, name: str, what: str
) -> tuple[dict[str, Any], Path]:
    for path, document in documents:
        for entry in document.get(section) or ():
            if entry.get("name") == name:
                return dict(entry.get(what) or {}), path.parent
    sources = ", ".join(str(path) for path, _ in documents)
    raise UsageError(f"{sources}: no {what} named {name!r}")


def _bytes(entry: dict[str, Any], key: str, directory: Path) -> bytes | None:
    if entry.get(f"{key}-data"):
        try:
            return base64.b64decode(entry[f"{key}-data"], validate=True)
        except binascii.Error as error:
            raise UsageError(f"kubeconfig: {key}-data is not base64") from error
    if entry.get(key):
        return _read_bytes(directory / entry[key])
    return None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _token(user: dict[str, Any], directory: Path) -> str:
    if user.get("token"):
        return str(user["token"])
    if user.get("tokenFile"):
        return _read_bytes(directory / user["tokenFile"]).decode().strip()
    return ""


def _with_exec_credential(user: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    plugin = user.get("exec")
    if not plugin:
        return user
    command = [str(plugin.get("command", "")), *(str(arg) for arg in plugin.get("args") or ())]
    extra = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or ()}
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        done = subprocess.run(
            command,
            env={**environment, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            capture_output=True,
            timeout=_EXEC_SECONDS,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise UsageError(f"kubeconfig: credential plugin {command[0]!r} failed: {error}") from error
    found = dict(user)
    if status.get("token"):
        found["token"] = status["token"]
    for source, key in (("clientCertificateData", "client-certificate-data"), ("clientKeyData", "client-key-data")):
        if status.get(source):
            found[key] = base64.b64encode(status[source].encode()).decode()
    return found


def _tls_context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.ca_data.decode() if access.ca_data else None)
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
