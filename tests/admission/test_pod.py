"""The gate of a queue, which pods ask for by an annotation."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from hekla.admission.pod import add_queue_gate
from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import POD, Obj
from hekla.api.scheduling import QUEUE_GATE
from tests import make
from tests.admission.test_review import Lookup, review

OWN = {"name": QUEUE_GATE}
OTHER = {"name": "example.com/mine"}
ASKS = {QUEUE_GATE: "true"}


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        (ASKS, {}, [OWN]),
        (ASKS, {"schedulingGates": [OTHER]}, [OTHER, OWN]),
        (ASKS, {"schedulingGates": [OWN]}, [OWN]),
        (ASKS, {"nodeName": "n1"}, None),
        ({}, {}, None),
        ({QUEUE_GATE: "True"}, {}, None),
        ({QUEUE_GATE: "false"}, {"schedulingGates": [OTHER]}, [OTHER]),
    ],
)
def test_who_asks_is_held_back_once(annotations: dict[str, str], spec: Obj, expected: list[Obj] | None) -> None:
    pod = make.pod("p", spec=spec, annotations=annotations)
    add_queue_gate(pod)
    assert pod["spec"].get("schedulingGates") == expected


@pytest.mark.parametrize("on", [False, True])
def test_it_is_a_matter_of_a_switch(on: bool) -> None:
    request = review(POD, "CREATE", make.pod("p", annotations=ASKS))
    response = asyncio.run(VolcanoAdmission(Lookup(), queue_gates=on).mutate(request))["response"]
    patch = json.loads(base64.b64decode(response["patch"])) if on else []
    assert ("patch" in response) is on
    assert patch == ([{"op": "add", "path": "/spec/schedulingGates", "value": [OWN]}] if on else [])
