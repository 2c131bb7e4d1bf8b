"""A pod's spec in its stored form is the caller's own, and large ones are not kept when they are over."""

from __future__ import annotations

import tracemalloc

from hekla.api.kinds import Obj
from hekla.api.stored import pod_spec_as_stored


def spec(*args: str) -> Obj:
    return {"containers": [{"name": "main", "image": "any", "args": list(args), "env": []}]}


def test_whoever_changes_what_he_got_changes_nobody_elses() -> None:
    first = pod_spec_as_stored(spec("a"))
    first["containers"][0]["args"].append("b")
    assert pod_spec_as_stored(spec("a")) == {"containers": [{"name": "main", "image": "any", "args": ["a"]}]}


def test_what_cannot_be_read_stays_as_it_is() -> None:
    odd = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "much"}}, "env": []}]}
    assert pod_spec_as_stored(odd) == odd


def test_large_ones_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for number in range(100):
            pod_spec_as_stored(spec(f"{number}", "x" * 100_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000
