"""What makes a pod wrong is said once, in Kubernetes' words, for pods and for templates."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.pod_rules import pod_spec_problems, template_problems


def spec(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x", **container}]}


def port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number}


def test_a_plain_pod_has_no_problem() -> None:
    assert pod_spec_problems(spec(), "spec") == []


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
        "template.spec.containers[0].image", "template.spec.hostname", "template.spec.activeDeadlineSeconds",
    ]  # fmt: skip


def test_the_same_port_name_in_two_containers_is_fine() -> None:
    two = {"containers": [{"name": name, "image": "x", "ports": [port("p", 1)]} for name in ("a", "b")]}
    assert pod_spec_problems(two, "spec") == []
