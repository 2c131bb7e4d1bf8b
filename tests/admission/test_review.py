from __future__ import annotations

import asyncio
import base64
import json
from copy import deepcopy
from typing import Any

import pytest

from hekla.admission.review import VolcanoAdmission
from hekla.api.kinds import CONFIG_MAP, JOB, POD, POD_GROUP, QUEUE, Kind
from hekla.api.scheduling import QUEUE_NAME_ANNOTATION
from tests import make


class Lookup:
    """What admission finds."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._objects = objects

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        return next((one for one in await self.find_all(kind) if one["metadata"]["name"] == name), None)

    async def find_all(self, kind: Kind, namespace: str | None = None) -> list[dict[str, Any]]:
        return [one for one in self._objects if one["kind"] == kind.kind]


def review(kind: Kind, operation: str, obj: dict[str, Any] | None, old: dict[str, Any] | None = None) -> dict[str, Any]:
    shown = obj or old or {}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "operation": operation,
            "name": shown["metadata"]["name"],
            "namespace": shown["metadata"].get("namespace", ""),
            "object": obj,
            "oldObject": old,
        },
    }


ADMISSION = VolcanoAdmission(Lookup(make.queue("default"), make.queue("root")))


def test_defaults_come_as_a_patch_that_echoes_the_request() -> None:
    answer = asyncio.run(ADMISSION.mutate(review(JOB, "CREATE", make.new_job())))
    response = answer["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u1", True, "JSONPatch")
    patch = {step["path"]: step["value"] for step in json.loads(base64.b64decode(response["patch"]))}
    assert patch["/spec/schedulerName"] == "volcano"
    assert patch["/spec/minAvailable"] == 1


def test_a_job_without_a_spec_is_the_servers_to_refuse() -> None:
    job = make.new_job()
    del job["spec"]
    response = asyncio.run(ADMISSION.mutate(review(JOB, "CREATE", job)))["response"]
    assert json.loads(base64.b64decode(response["patch"]))[0]["path"] == "/spec/queue"


def test_an_update_that_cannot_be_read_is_refused() -> None:
    old, new = make.job(), make.job(runningEstimate="soon")
    response = asyncio.run(ADMISSION.validate(review(JOB, "UPDATE", new, old)))["response"]
    assert response["status"]["message"] == 'time: invalid duration "soon"'


def test_a_complete_job_needs_no_patch() -> None:
    job = make.job()
    job["spec"]["tasks"][0]["template"] = {"metadata": {}, "spec": {"containers": [make.container(resources={})]}}
    assert "patch" not in asyncio.run(ADMISSION.mutate(review(JOB, "CREATE", job)))["response"]


def test_a_job_of_the_wrong_shape_is_refused_when_it_is_made_and_left_to_the_schema_when_it_is_changed() -> None:
    rare = {"tasks": [{"template": {"spec": {"topologySpreadConstraints": "text"}}}]}
    for spec in ("text", {"tasks": "text"}, {"tasks": ["x"]}, {"tasks": [{"replicas": "many"}]}, {"plugins": []}, rare):
        job = {"metadata": {"name": "demo"}, "spec": spec}
        response = asyncio.run(ADMISSION.mutate(review(JOB, "CREATE", job)))["response"]
        assert "cannot unmarshal" in response["status"]["message"], spec
        assert asyncio.run(ADMISSION.mutate(review(JOB, "UPDATE", job)))["response"]["allowed"], spec
    unspecified = {"metadata": {"name": "demo"}, "spec": 3}
    assert asyncio.run(ADMISSION.mutate(review(JOB, "UPDATE", unspecified)))["response"]["allowed"]


def test_a_refusal_carries_the_message() -> None:
    answer = asyncio.run(ADMISSION.validate(review(JOB, "CREATE", make.job(queue="nowhere"))))
    assert answer["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {
            "message": 'unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found;',
        },
    }


def test_arguments_nobody_reads_are_warned_about_but_let_in() -> None:
    answer = asyncio.run(ADMISSION.validate(review(JOB, "CREATE", make.job(plugins={"svc": ["--enable-networking"]}))))
    assert answer["response"]["allowed"]
    assert answer["response"]["warnings"] == ["spec.plugins[svc]: flag provided but not defined: -enable-networking"]


def test_a_warning_is_one_line_as_servers_drop_others() -> None:
    """As a block of YAML writes it, an argument ends with a line break."""
    answer = asyncio.run(ADMISSION.validate(review(JOB, "CREATE", make.job(plugins={"ssh": ["--ssh-port=2222\n"]}))))
    (warning,) = answer["response"]["warnings"]
    assert warning == r'spec.plugins[ssh]: invalid value "2222\n" for flag -ssh-port: parse error'


def test_a_deletion_has_no_object() -> None:
    answer = asyncio.run(ADMISSION.validate(review(QUEUE, "DELETE", None, make.queue("default"))))
    assert answer["response"]["status"]["message"] == "`default` queue can not be deleted"


def test_interest_is_limited_to_what_has_rules() -> None:
    assert ADMISSION.interested(JOB, "UPDATE")
    assert ADMISSION.interested(QUEUE, "DELETE")
    assert not ADMISSION.interested(POD, "UPDATE")
    assert not ADMISSION.interested(CONFIG_MAP, "CREATE")


QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("kind", "spec", "found"),
    [
        (QUEUE, {"weight": "2"}, "string into Go struct field QueueSpec.spec.weight of type int32"),
        (QUEUE, {"reclaimable": 1}, "number into Go struct field QueueSpec.spec.reclaimable of type bool"),
        (QUEUE, {"capability": {"cpu": "many"}}, QUANTITY),
        (QUEUE, {"guarantee": {"resource": {"cpu": "x"}}}, QUANTITY),
        (POD_GROUP, {"minMember": "2"}, "string into Go struct field PodGroupSpec.spec.minMember of type int32"),
    ],
)
def test_what_upstream_cannot_read_is_refused_in_its_words(kind: Kind, spec: dict[str, Any], found: str) -> None:
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, "spec": spec}
    response = asyncio.run(ADMISSION.mutate(review(kind, "CREATE", obj)))["response"]
    message = found if found == QUANTITY else f"json: cannot unmarshal {found}"
    assert (response["allowed"], response["status"]["message"]) == (False, message)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (JOB, {"tasks": [make.task()], "plugins": {"pytorch": None}}),
        (QUEUE, {}),
        (POD_GROUP, {"queue": "default", "minMember": 1}),
    ],
)
def test_what_is_reviewed_stays_as_it_came(kind: Kind, spec: dict[str, Any], operation: str) -> None:
    """Who asks compares the answer with what was sent, and may ask others about it, too."""
    home = {"kind": "Namespace", "metadata": {"name": "home", "annotations": {QUEUE_NAME_ANNOTATION: "theirs"}}}
    hierarchy = {"volcano.sh/hierarchy": "a", "volcano.sh/hierarchy-weights": "1"}
    obj = {"metadata": {"name": "x", "namespace": "home", "annotations": hierarchy}, "spec": spec}
    sent = deepcopy(obj)
    answer = asyncio.run(VolcanoAdmission(Lookup(home)).mutate(review(kind, operation, obj)))
    assert ("patch" in answer["response"]) == ((kind, operation) == (JOB, "UPDATE") or operation == "CREATE")
    assert obj == sent
