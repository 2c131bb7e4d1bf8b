"""What makes a pod wrong is said once, in Kubernetes' words, for pods and for templates."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from hekla.api.pod_rules import pod_problems, pod_spec_problems, template_problems

FAULTS = yaml.safe_load((Path(__file__).parent / "pod-faults.yaml").read_text())


def spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x", **container}]}


def port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number}


def test_a_plain_pod_has_no_problem() -> None:
    assert pod_spec_problems(spec(), "spec") == []


def resources(**amounts: dict[str, str]) -> dict[str, Any]:
    return spec(resources=amounts)


def texts(wrong: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in pod_spec_problems(wrong, "spec")]


def test_a_port_name_is_told_everything_that_is_wrong_with_it() -> None:
    where = "spec.containers[0].ports[0].name: Invalid value:"
    assert texts(spec(ports=[port("-9--", 1)])) == [
        f'{where} "-9--": must contain at least one letter (a-z)',
        f'{where} "-9--": must not contain consecutive hyphens',
        f'{where} "-9--": must not begin or end with a hyphen',
    ]
    assert texts(spec(ports=[port("Much_too_long_a_name", 1)])) == [
        f'{where} "Much_too_long_a_name": must be no more than 15 characters',
        f'{where} "Much_too_long_a_name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
    ]


def test_a_resource_nobody_knows_is_told_twice() -> None:
    where = 'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu":'
    assert texts(resources(requests={"gpu": "1"})) == [
        f"{where} must be a standard resource type or fully qualified",
        f"{where} must be a standard resource for containers",
    ]


def test_what_cannot_be_shared_is_asked_for_as_it_is_limited() -> None:
    assert texts(resources(requests={"x.io/gpu": "1"}, limits={"x.io/gpu": "1"})) == []
    assert texts(resources(requests={"x.io/gpu": "1"})) == [
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"
    ]
    assert texts(resources(requests={"x.io/gpu": "1"}, limits={"x.io/gpu": "2"})) == [
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to x.io/gpu limit of 2'
    ]


def test_a_volume_has_one_source_and_says_which() -> None:
    volumes = [{"name": "a", "secret": {}}, {"name": "b", "emptyDir": {}, "hostPath": {"path": "/x"}}, {"name": "c"}]
    assert texts({**spec(), "volumes": volumes}) == [
        "spec.volumes[0].secret.secretName: Required value",
        "spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type",
    ]


def test_the_labels_of_a_template_are_labels() -> None:
    problems = template_problems({"metadata": {"labels": {"a": "b c"}}, "spec": spec()})
    (text,) = [str(problem) for problem in problems]
    assert text.startswith('template.labels: Invalid value: "b c": a valid label must be an empty string or consist of')


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        (spec(image=""), "spec.containers[0].image: Required value"),
        (spec(ports=[port("p", 1), port("p", 2)]), 'spec.containers[0].ports[1].name: Duplicate value: "p"'),
        (spec(ports=[{"name": "p"}]), "spec.containers[0].ports[0].containerPort: Required value"),
        (
            spec(ports=[{"containerPort": 70000}]),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            spec(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            {**spec(), "restartPolicy": "Sometimes"},
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        ),
        (
            spec(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (spec(env=[{"value": "1"}]), "spec.containers[0].env[0].name: Required value"),
        ({**spec(), "volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
    ],
)
def test_each_problem_is_told_with_its_field(wrong: dict[str, Any], problem: str) -> None:
    assert [str(one) for one in pod_spec_problems(wrong, "spec")] == [problem]


def test_init_containers_may_not_take_the_name_of_a_container() -> None:
    wrong = {**spec(), "initContainers": [{"name": "main", "image": "x"}]}
    (problem,) = pod_spec_problems(wrong, "spec")
    assert str(problem) == 'spec.initContainers[0].name: Duplicate value: "main"'


def test_all_problems_of_a_template_are_told_at_once() -> None:
    wrong = {"spec": {**spec(image=""), "hostname": "A b", "activeDeadlineSeconds": 0}}
    fields = [problem.field for problem in template_problems(wrong)]
    assert fields == [
        "template.spec.containers[0].image", "template.spec.activeDeadlineSeconds", "template.spec.hostname",
    ]  # fmt: skip


def test_of_what_a_template_only_limits_the_limit_is_told() -> None:
    for amount, why in (("-1", "must be greater than or equal to 0"), ("1500m", "must be an integer")):
        limited = spec(resources={"limits": {"nvidia.com/gpu": amount}})
        (problem, *_) = template_problems({"spec": limited})
        assert str(problem) == (
            f'template.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "{amount}": {why}'
        )
        assert not [each for each in template_problems({"spec": limited}) if "requests" in each.field]


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("", "Required value"),
        ("Maybe", 'Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"'),
    ],
)
def test_whether_a_template_displaces_others_is_one_of_two(policy: str, told: str) -> None:
    (problem, *_) = template_problems({"spec": {**spec(), "preemptionPolicy": policy}})
    assert str(problem) == f"template.spec.preemptionPolicy: {told}"


def test_the_same_port_name_in_two_containers_is_fine() -> None:
    two = {"containers": [{"name": name, "image": "x", "ports": [port("p", 1)]} for name in ("a", "b")]}
    assert pod_spec_problems(two, "spec") == []


@pytest.mark.parametrize("fault", FAULTS, ids=[fault["name"] for fault in FAULTS])
def test_a_pod_is_told_what_kubernetes_tells_it(fault: dict[str, Any]) -> None:
    about_metadata = template_problems({"metadata": fault.get("metadata"), "spec": spec()}, "metadata")
    pod = {"metadata": {"name": "p"}, "spec": deepcopy(fault["spec"])}
    ask_at_the_limits(pod["spec"])
    found = [*about_metadata, *pod_problems(pod["spec"])]
    assert [str(problem) for problem in found] == fault["problems"]


def ask_at_the_limits(spec: dict[str, Any]) -> None:
    """As a server does with a new pod, and nobody with a template: what is limited only is asked for, too."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = (container or {}).get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def is_about_what_is_only_limited(text: str, spec: dict[str, Any]) -> bool:
    named = {
        name for each in spec.get("containers") or () for name in (each.get("resources") or {}).get("requests") or ()
    }
    return ".resources.requests[" in text and not any(f"[{name}]" in text for name in named)


def test_a_template_is_told_the_same_but_for_what_concerns_new_pods_only() -> None:
    new_pods_only = ("whitespace", "spec.ephemeralContainers", "schedulingGates have been cleared")
    for fault in FAULTS:
        told = [str(problem) for problem in pod_spec_problems(fault["spec"], "spec")]
        about_spec = [text for text in fault["problems"] if text.startswith("spec.")]
        assert told == [
            text
            for text in about_spec
            if not any(word in text for word in new_pods_only)
            and not is_about_what_is_only_limited(text, fault["spec"])
        ], fault["name"]
