"""Pods on their way from the API server into the cache."""

from __future__ import annotations

import random

from hekla.api.kinds import Obj
from hekla.client.partial import Listed, Moved
from hekla.client.watch import ChangeType
from hekla.scheduler.cache import Cache
from hekla.scheduler.podfeed import PodFeed
from hekla.scheduler.podreading import form_of
from tests import make


def nothing() -> None:
    pass


def test_a_pod_that_cannot_be_read_any_more_stays_until_it_is_deleted() -> None:
    cache = Cache()
    feed = PodFeed(None, cache, rng=random.Random(0), wake=nothing, wake_later=nothing)  # type: ignore[arg-type]
    pods: list[Obj] = [make.pod(uid, uid=uid, spec={"nodeName": "n1"}) for uid in ("A", "B")]
    feed._take_page(Listed([form_of(pod) for pod in pods], "1", first=True))
    assert cache.known_pods() == {"A", "B"}
    alone = form_of({"metadata": {"name": "A", "uid": "A"}})
    feed._take_page(Listed([], "2", first=True, odd=[alone]))
    assert cache.known_pods() == {"A"}
    feed._take_changes(Moved([(ChangeType.DELETED, alone)]))
    assert cache.known_pods() == set()
