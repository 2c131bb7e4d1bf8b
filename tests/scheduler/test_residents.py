"""Who might have to leave: what that could free is counted once, whoever is leaving already."""

from __future__ import annotations

from hekla.scheduler.cache import Cache
from hekla.scheduler.residents import Residents
from hekla.scheduler.rows import PodStatus
from hekla.scheduler.session import Session
from hekla.scheduler.statement import Statement
from hekla.scheduler.trial.objects import group_object, node_object, pod_object, queue_object


def test_what_a_node_could_give_does_not_grow_when_somebody_is_made_to_leave() -> None:
    cache = Cache()
    for put, obj in (
        (cache.put_queue, queue_object({"name": "default"})),
        (cache.put_node, node_object({"name": "n1", "cpu": 4})),
        (cache.put_group, group_object({"name": "a", "min": 1, "phase": "Running"})),
        (cache.put_pod, pod_object({"name": "a-t-0", "cpu": 2, "node": "n1", "phase": "Running"}, "a")),
        (cache.put_pod, pod_object({"name": "a-t-1", "cpu": 1, "node": "n1", "phase": "Running"}, "a")),
    ):
        obj["metadata"]["uid"] = obj["metadata"]["name"]
        put(obj)
    session = Session(cache.snapshot())
    residents = Residents(session, session.groups, (PodStatus.RUNNING,))
    assert residents.most_free(session)[0, 0] == 4000
    trial = Statement(session)
    trial.evict(residents.on(0)[0], "test")
    assert session.free_later_on(0)[0] == 3000
    assert residents.most_free(session)[0, 0] == 4000
    assert [resident.pod.name for resident in residents.on(0)] == ["a-t-1"]
    trial.discard()
    assert residents.most_free(session)[0, 0] == 4000
