"""The two kubeconfigs a local cluster writes: one for people, one for its own components."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hekla.errors import UsageError
from hekla.local.credentials import Credentials
from hekla.local.private_files import write_private

# Whoever uses the kubeconfig, or a copy of it, finds by this what else is to be known of the cluster on this machine.
_EXTENSION = "hekla.dev/local-cluster"


def write_user_kubeconfig(path: Path, *, port: int, credentials: Credentials, data_dir: Path) -> None:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": base64.b64encode(credentials.ca.read_bytes()).decode(),
        "extensions": [{"name": _EXTENSION, "extension": {"dataDir": str(data_dir)}}],
    }
    _write(path, cluster, {"token": credentials.token.read_text().strip()})


def noted_data_dir(extensions: Mapping[str, Any]) -> Path | None:
    """Of a local cluster, its data dir, as its kubeconfig notes it."""
    noted = extensions.get(_EXTENSION)
    found = noted.get("dataDir") if isinstance(noted, dict) else None
    return Path(found) if isinstance(found, str) and found else None


def write_component_kubeconfig(path: Path, *, socket: Path) -> None:
    """No credential in it: the socket lies in a folder only its owner may enter."""
    _write(path, {"server": f"unix://{quote(str(socket))}"}, {})


def check_replaceable(path: Path) -> None:
    """Refuse to write over a kubeconfig that is not ours: it may be somebody's only way to a cluster."""
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}")
    if not path.exists():
        return
    try:
        ours = [entry["name"] for entry in json.loads(path.read_text())["clusters"]] == ["hekla"]
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise UsageError(f"{path} is a kubeconfig of something else; name another place with --kubeconfig")


def _write(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hekla", "cluster": cluster}],
        "users": [{"name": "hekla-admin", "user": user}],
        "contexts": [{"name": "hekla", "context": {"cluster": "hekla", "user": "hekla-admin"}}],
        "current-context": "hekla",
    }
    # JSON is YAML, and every kubeconfig reader takes it.
    write_private(path, json.dumps(document, indent=2).encode() + b"\n")
