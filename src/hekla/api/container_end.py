"""How a container ended, in words: nodes write it in an Event when it ended badly, and commands read it there.

A pod's status says the same, but goes with the pod.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ENDED_BADLY = "EndedBadly"  # the `action` of such an Event, whose reason is that of the container's state

_TEXT = re.compile(r"Container (?P<container>\S+) ended with exit code (?P<code>-?\d+)(?:: (?P<said>.*))?", re.DOTALL)


class ContainerEnd(NamedTuple):
    container: str
    code: int
    said: str = ""

    def __str__(self) -> str:
        text = f"Container {self.container} ended with exit code {self.code}"
        return f"{text}: {self.said}" if self.said else text

    @classmethod
    def read(cls, text: str) -> ContainerEnd | None:
        """None for anything else."""
        found = _TEXT.fullmatch(text)
        return cls(found["container"], int(found["code"]), found["said"] or "") if found else None
