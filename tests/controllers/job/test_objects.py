"""Objects that plugins ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hekla.api.kinds import CONFIG_MAP, JOB, POD, SECRET, SERVICE, Obj
from hekla.api.meta import owner_reference
from hekla.client.informer import Informer
from hekla.controllers.job.kubelets import Kubelets
from hekla.controllers.job.model import read_job
from hekla.controllers.job.objects import NotOurs, ObjectKeeper
from hekla.controllers.job.plugin import Wanted
from tests import make
from tests.integration.stage import Stage, perform


def never() -> Obj:
    raise AssertionError("made though it is there")


@pytest.mark.parametrize("ours", [True, False])
def test_a_key_pair_is_not_made_where_there_is_one(ours: bool) -> None:
    """It cost a tenth of a second at each new try for a name that another had, and for each job after a restart."""

    stage = Stage()

    async def main() -> None:
        await stage.open_server()
        job: Any = make.job("demo")
        owners = [owner_reference(job, JOB)] if ours else []
        secret = {"metadata": {"name": "demo-ssh", "namespace": "default", "ownerReferences": owners}, "data": {}}
        await stage.client.create(SECRET, secret)
        kubelets = Kubelets(stage.client, Informer(stage.client, POD, rng=stage.rng))
        keeper, wanted = (
            ObjectKeeper(stage.client, kubelets, stage.clock),
            [Wanted(SECRET, secret, ("data",), once=never)],
        )
        if ours:
            await keeper.ensure(read_job(job), wanted, [], verify=True)
        else:
            with pytest.raises(NotOurs):
                await keeper.ensure(read_job(job), wanted, [], verify=True)

    perform(main)


def test_what_is_lost_while_the_others_are_looked_for_is_asked_for_again() -> None:
    """Somebody who deletes one of them often deletes all, one after the other."""

    stage = Stage()

    async def main() -> None:
        await stage.open_server()
        obj: Any = make.job("demo")
        job = read_job(obj)
        meta = {"name": "demo", "namespace": "default", "ownerReferences": [owner_reference(obj, JOB)]}
        hosts = Wanted(CONFIG_MAP, {"metadata": meta, "data": {}})
        service = Wanted(SERVICE, {"metadata": meta, "spec": {"clusterIP": "None"}})
        kubelets = Kubelets(stage.client, Informer(stage.client, POD, rng=stage.rng))
        keeper = ObjectKeeper(stage.client, kubelets, stage.clock)

        def losing() -> Iterator[Wanted]:
            yield hosts
            assert keeper.misses(job.uid, CONFIG_MAP, "demo")
            yield service

        await keeper.ensure(job, [hosts, service], [], verify=True)
        assert keeper.believed_for(job) > 0
        await keeper.ensure(job, losing(), [], verify=True)
        assert keeper.believed_for(job) < 0

    perform(main)
