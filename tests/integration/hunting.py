"""Moments that chance alone would hardly ever strike: the n-th write of one kind by one component, and what befalls it.

Between two writes that belong together there are milliseconds. So each rehearsal picks a few such moments, and at each
the component is killed before or after the write, or does not hear what became of it and then hears nothing of the rest
either for a while.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hekla.client.transport import Request

# Component, method, part of the path or of what is written, and how many such writes may go through before.
_PREY = (
    ("controllers", "PUT", '"phase":"Restarting"', 2),
    ("controllers", "PUT", '"phase":"Restarting"', 2),
    ("controllers", "PUT", '"phase":"Restarting"', 2),
    ("controllers", "PUT", '"phase":"Aborting"', 2),
    ("controllers", "PUT", '"phase":"Completing"', 1),
    ("controllers", "PUT", '"phase":"Terminating"', 1),
    ("controllers", "PUT", "/jobs/", 8),
    ("controllers", "POST", "/pods", 8),
    ("controllers", "PATCH", "/pods/", 2),
    ("controllers", "DELETE", "/pods/", 4),
    ("controllers", "POST", "/podgroups", 4),
    ("controllers", "DELETE", "/podgroups/", 3),
    ("controllers", "DELETE", "/commands/", 3),
    ("controllers", "PATCH", "/queues/", 3),
    ("controllers", "POST", "/services", 3),
    ("scheduler", "P", "binding", 6),
    ("scheduler", "P", "binding", 6),
    ("scheduler", "P", "/podgroups/", 8),
    ("builtins", "DELETE", "/", 6),
)
_FATES = ("killed before", "killed after", "lost before", "lost after")
_LONGEST_SILENCE = 30.0


@dataclass(slots=True)
class Hunt:
    who: str
    method: str
    part: str
    passing: int  # so many such writes go through before
    fate: str
    silence: float

    def strikes(self, who: str, request: Request) -> bool:
        if who != self.who or not request.method.startswith(self.method):
            return False
        if self.part not in request.path and self.part.encode() not in request.body:
            return False
        self.passing -= 1
        return self.passing < 0


def hunts(rng: random.Random) -> list[Hunt]:
    return [
        Hunt(who, method, part, rng.randrange(most), rng.choice(_FATES), rng.uniform(0, _LONGEST_SILENCE))
        for who, method, part, most in rng.sample(_PREY, rng.randint(1, 3))
    ]
