from __future__ import annotations

from typing import Any

import pytest

from hekla.admission.queue import QueueRules, default_queue, validate_queue, validate_queue_deletion
from tests import make

USUAL = QueueRules()


def fault(
    queue: dict[str, Any], *others: dict[str, Any], old: dict[str, Any] | None = None, rules: QueueRules = USUAL
) -> str:
    return validate_queue(queue, old, {other["metadata"]["name"]: other for other in others}, rules)


def test_a_new_queue_is_filled_in() -> None:
    queue = {
        "metadata": {"name": "q", "annotations": {"volcano.sh/hierarchy": "a", "volcano.sh/hierarchy-weights": "2"}}
    }
    default_queue(queue)
    assert queue["spec"] == {"reclaimable": True, "weight": 1}
    assert queue["metadata"]["annotations"] == {
        "volcano.sh/hierarchy": "root/a",
        "volcano.sh/hierarchy-weights": "1/2",
    }


def test_a_guarantee_needs_at_least_as_much_deserved() -> None:
    assert fault(make.queue("q", guarantee={"resource": {"cpu": "1"}})) == (
        'requestBody.spec.deserved.cpu: Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=1'
    )
    assert fault(make.queue("q", guarantee={"resource": {"cpu": "2"}}, deserved={"cpu": "1"})) == (
        'requestBody.spec.deserved.cpu: Invalid value: "1": deserved[cpu]=1 must be >= guarantee[cpu]=2'
    )


def test_several_faults_come_in_brackets() -> None:
    message = fault(make.queue("q", guarantee={"resource": {"cpu": "-2"}}))
    assert message == (
        '[requestBody.spec.guarantee.resource.cpu: Invalid value: "-2": must be greater than or equal to 0, '
        'requestBody.spec.deserved.cpu: Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=-2]'
    )


def test_deserved_stays_within_capability() -> None:
    assert fault(make.queue("q", deserved={"cpu": "5"}, capability={"cpu": "4"})) == (
        'requestBody.spec.deserved.cpu: Invalid value: "5": deserved[cpu]=5 must be <= capability[cpu]=4'
    )


def test_a_parent_must_exist_and_not_be_oneself() -> None:
    assert fault(make.queue("q", parent="q")) == "queue q cannot use itself as parent"
    assert fault(make.queue("q", parent="nobody")) == (
        'failed to get parent queue nobody of queue q: queue.scheduling.volcano.sh "nobody" not found'
    )


def test_queues_above_each_other_do_not_keep_the_server_busy() -> None:
    """Two changes at once, each right by itself, make such a ring."""
    ring = [make.queue("a", parent="b"), make.queue("b", parent="a")]
    old = make.queue("q", parent="a")
    assert fault(make.queue("q", parent="a", capability={"cpu": "4"}), *ring, old=old) == ""
    assert fault(make.queue("top", capability={"cpu": "4"}), *ring, make.queue("c", parent="top")) == ""


def test_a_queue_cannot_go_below_its_own_child() -> None:
    old, child = make.queue("a", parent="root"), make.queue("b", parent="a")
    message = "queue a exceeds the maximum allowed depth of 5"
    assert fault(make.queue("a", parent="b"), old, child, old=old) == message
    # One that is not there yet is missing on the way up, like any other.
    assert fault(make.queue("a", parent="b"), child) == (
        'failed to get parent queue a of queue a: queue.scheduling.volcano.sh "a" not found'
    )


def test_the_tree_has_a_greatest_depth() -> None:
    tree = [make.queue("a", parent="root"), make.queue("b", parent="a")]
    assert fault(make.queue("c", parent="b"), *tree, rules=QueueRules(max_depth=3)) == ""
    assert (
        fault(make.queue("c", parent="b"), *tree, rules=QueueRules(max_depth=2))
        == "queue c exceeds the maximum allowed depth of 2"
    )


def test_a_queue_with_pods_cannot_become_a_parent() -> None:
    parent = make.queue("a", parent="root")
    parent["status"]["allocated"] = {"pods": "3"}
    assert fault(make.queue("b", parent="a"), parent) == (
        "queue a cannot be the parent queue of queue b because it has allocated Pods: 3"
    )


def test_resources_fit_into_the_tree() -> None:
    parent = make.queue("p", parent="root", capability={"cpu": "20"}, deserved={"cpu": "4", "memory": "8Gi"})
    child = make.queue("c", parent="p", capability={"cpu": "10"}, deserved={"cpu": "3"})
    assert fault(make.queue("d", parent="p", capability={"cpu": "30"}), parent, child) == (
        "queue d capability[cpu]=30 exceeds its ancestor's capability=20"
    )
    assert fault(make.queue("d", parent="p", deserved={"cpu": "6"}), parent, child) == (
        "parent queue p validation failed: sum of children's deserved (cpu 9000.00, memory 0.00) "
        "exceeds parent's deserved limit (cpu 4000.00, memory 8589934592.00)"
    )
    smaller = make.queue("p", parent="root", capability={"cpu": "5"}, deserved={"cpu": "4"})
    assert fault(smaller, parent, child, old=parent) == (
        "queue p capability[cpu]=5 is smaller than its descendants' max capability=10"
    )


def test_amounts_in_the_tree_are_told_in_their_own_units() -> None:
    parent = make.queue("p", parent="root", capability={"memory": "10Gi", "nvidia.com/gpu": "4"})
    assert fault(make.queue("c", parent="p", capability={"memory": "20Gi"}), parent) == (
        "queue c capability[memory]=20Gi exceeds its ancestor's capability=10Gi"
    )
    assert fault(make.queue("c", parent="p", capability={"nvidia.com/gpu": "8"}), parent) == (
        "queue c capability[nvidia.com/gpu]=8000.00 exceeds its ancestor's capability=4000.00"
    )


def test_a_capability_of_nothing_is_none() -> None:
    parent = make.queue("p", parent="root", capability={"cpu": "0"})
    child = make.queue("c", parent="p", capability={"cpu": "10"})
    assert fault(child, parent) == ""
    assert fault(make.queue("p", parent="root", capability={"cpu": "0"}), parent, child, old=make.queue("p")) == ""


def test_a_lowered_parent_is_told_of_the_first_child_that_is_too_much() -> None:
    parent = make.queue("p", parent="root", deserved={"cpu": "6"})
    children = [make.queue(name, parent="p", deserved={"cpu": "3"}) for name in ("c", "d")]
    assert fault(make.queue("p", parent="root", deserved={"cpu": "2"}), parent, *children, old=parent) == (
        "queue p validation failed: sum of children's deserved (cpu 3000.00, memory 0.00) "
        "exceeds parent's deserved limit (cpu 2000.00, memory 0.00)"
    )


def test_only_the_first_wrong_weight_of_a_hierarchy_is_told() -> None:
    queue = make.queue("a")
    queue["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "0/x"}
    assert fault(queue) == (
        'requestBody.metadata.annotations: Invalid value: "0/x": 0 in the 0/x must be larger than 0'
    )


@pytest.mark.parametrize(
    ("weight", "why"), [(" 2", "invalid syntax"), ("1_0", "invalid syntax"), ("1e400", "value out of range")]
)
def test_a_weight_is_a_plain_number(weight: str, why: str) -> None:
    queue = make.queue("a")
    queue["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root", "volcano.sh/hierarchy-weights": weight}
    assert fault(queue) == (
        f'requestBody.metadata.annotations: Invalid value: "{weight}": {weight} in the {weight} is invalid number: '
        f'strconv.ParseFloat: parsing "{weight}": {why}'
    )


def test_the_root_keeps_its_resources() -> None:
    old = make.queue("root")
    assert fault(make.queue("root", capability={"cpu": "1"}), old, old=old) == (
        "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    )
    assert fault(make.queue("root", weight=2), old, old=old) == ""
    unprotected = QueueRules(protect_root=False)
    assert fault(make.queue("root", capability={"cpu": "1"}), old, old=old, rules=unprotected) == ""


def test_what_may_not_be_deleted() -> None:
    queues = {name: make.queue(name, parent=parent) for name, parent in (("p", "root"), ("c", "p"))}
    assert validate_queue_deletion("default", queues, USUAL) == "`default` queue can not be deleted"
    assert validate_queue_deletion("p", queues, USUAL) == "queue p can not be deleted because it has 1 child queues: c"
    assert validate_queue_deletion("c", queues, USUAL) == ""


def test_a_queue_with_pods_on_nodes_stays_where_the_administrator_wants_it_so() -> None:
    busy = make.queue("busy")
    busy["status"]["allocated"] = {"cpu": "2", "pods": "3"}
    careful = QueueRules(check_allocated_pods=True)
    message = "queue busy cannot be deleted because it has allocated Pods: 3"
    assert validate_queue_deletion("busy", {"busy": busy}, careful) == message
    assert validate_queue_deletion("busy", {"busy": busy}, USUAL) == ""
    assert validate_queue_deletion("idle", {"idle": make.queue("idle")}, careful) == ""
