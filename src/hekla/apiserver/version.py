"""Which Kubernetes this server speaks."""

from __future__ import annotations

from hekla.api.kinds import Obj

GIT_VERSION = "v1.36.1+hekla"


def version_document() -> Obj:
    return {
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }
