from __future__ import annotations

from hekla.api.kinds import Obj
from hekla.api.limit_range import fill_in, joined, pod_objections, read_limit_range


def ranges(*limits: Obj) -> Obj:
    return {"metadata": {"name": "r"}, "spec": {"limits": list(limits)}}


def pod(**spec: object) -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}], **spec}}


def test_filling_in_twice_is_filling_in_once() -> None:
    read = read_limit_range(
        ranges({"type": "Container", "default": {"cpu": "1000m"}, "defaultRequest": {"cpu": "0.5"}})
    )
    once = pod()
    fill_in(read, once)
    assert once["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}
    twice = {**once, "metadata": dict(once["metadata"])}
    fill_in(read, twice)
    assert twice == once


def test_without_defaults_nothing_is_touched() -> None:
    read, plain = read_limit_range(ranges({"type": "Pod", "max": {"cpu": "1"}})), pod()
    fill_in(read, plain)
    assert plain == pod()


def test_what_the_node_adds_is_not_held_against_a_pod() -> None:
    read = read_limit_range(ranges({"type": "Pod", "max": {"cpu": "1"}}))
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}
    assert pod_objections(read, pod(containers=[container], overhead={"cpu": "1"})) == []


def test_several_objections_are_told_together_each_once() -> None:
    assert joined(["a"]) == joined(["a", "a"]) == "a"
    assert joined(["a", "b", "a"]) == "[a, b]"
