"""`ssh`: the pods of a job can log in to each other.

A Secret holds one key pair for all of them and a client configuration that names every pod. The pair is made once and
stays; only the configuration follows when the job is scaled (on kubelets, when no pod has it mounted: decision 0013).
"""

from __future__ import annotations

import base64
from typing import ClassVar

from hekla.api.job_plugins import DEFAULT_SSH_PORT, Arguments, Flag, ssh_port
from hekla.api.kinds import SECRET, Obj
from hekla.controllers.job.hosts import host_names, task_hosts
from hekla.controllers.job.model import Job
from hekla.controllers.job.plugin import Wanted, every_container, owned

_DEFAULT_PATH = "/root/.ssh"
_KEY_BITS = 2048
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


class Ssh:
    flags: ClassVar[tuple[Flag, ...] | None] = (
        Flag("ssh-key-file-path", _DEFAULT_PATH, "directory the keys are mounted at"),
        Flag("ssh-private-key", "", "a private key to use in place of a generated one"),
        Flag("ssh-public-key", "", "the public key that belongs to it"),
        Flag("ssh-port", DEFAULT_SSH_PORT, "port of the pods' sshd"),
    )
    records: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        self._path = arguments.text("ssh-key-file-path")
        self._private_key = arguments.text("ssh-private-key")
        self._public_key = arguments.text("ssh-public-key")
        self._port = ssh_port(arguments)

    def shape_pod(self, pod: Obj, job: Job) -> None:
        name = _secret_name(job)
        for container in every_container(pod):
            mount = {"name": name, "mountPath": self._path, "subPath": ".ssh"}
            container.setdefault("volumeMounts", []).append(mount)
        secret = {
            "secretName": name,
            # ssh refuses keys that others can read; users other than root could not read them at all.
            "defaultMode": 0o600 if self._path == _DEFAULT_PATH else 0o644,
            "items": [{"key": file, "path": f".ssh/{file}"} for file in _FILES],
        }
        pod["spec"].setdefault("volumes", []).append({"name": name, "secret": secret})

    def objects(self, job: Job) -> list[Wanted]:
        secret = owned(job, SECRET, _secret_name(job), data={"config": _encoded(self._config(job))})
        return [Wanted(SECRET, secret, ("data",), once=self._keys, mounted_in_part=True)]

    def _config(self, job: Job) -> str:
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.tasks:
            for name, host in zip(host_names(job, task), task_hosts(job, task), strict=True):
                lines += [f"Host {name}", f"  HostName {host}", f"  Port {self._port}"]
        return "\n".join(lines) + "\n"

    def _keys(self) -> Obj:
        if self._private_key:
            private, public = self._private_key, self._public_key
        else:
            private, public = _generate_pair()
        pair = {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}
        return {"data": {file: _encoded(text) for file, text in pair.items()}}


def _secret_name(job: Job) -> str:
    return f"{job.key.name}-ssh"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _generate_pair() -> tuple[str, str]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), public.decode() + "\n"
