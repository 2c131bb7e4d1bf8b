"""A real API server process for tests, with its credentials and a kubeconfig."""

from __future__ import annotations

import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

import msgspec

from hekla.client.rest import Client
from hekla.client.transport import HttpTransport

PROGRAM = Path(__file__).parent / "server_process.py"


class LiveServer:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[str]
        self.port = 0

    def __enter__(self) -> LiveServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.directory)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.communicate()
        assert line, "the server ended before it was ready"
        self.port = int(line)
        self._write_kubeconfig()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.directory / "credentials" / "token").read_text().strip()

    @property
    def authority(self) -> Path:
        return self.directory / "credentials" / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def client(self) -> Client:
        return Client(HttpTransport("http://localhost", socket_path=str(self.directory / "run" / "api.sock")))

    def ask(self, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Over TLS, with exactly these headers."""
        context = ssl.create_default_context(cafile=str(self.authority))
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=named)
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _write_kubeconfig(self) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority": str(self.authority)}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.kubeconfig.write_bytes(msgspec.json.encode(document))
