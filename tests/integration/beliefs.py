"""I13: what components believe equals what the store holds, and they remember nothing of what is gone.

Their copies are found where they are, in the memory of this process.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import JOB, POD
from hekla.api.meta import Key, controller_of, key_of, name_of, revision_of, uid_of
from hekla.client.informer import Informer
from hekla.controllers.job.controller import JobController
from hekla.scheduler.binder import Binder
from tests.integration.stage import WatchedStore, storage_of


def wrong_beliefs(names: Mapping[int, str], store: WatchedStore) -> list[str]:
    """`names` are those of the components that are alive, by the identity of their clients."""
    problems: list[str] = []
    for found in gc.get_objects():
        if isinstance(found, Informer) and id(found._client) in names:
            problems += _of_informer(found, names[id(found._client)], store)
        elif isinstance(found, Binder) and id(found._client) in names:
            problems += _of_scheduler(found, store)
        elif isinstance(found, JobController) and id(found._client) in names:
            problems += _of_job_controller(found, store)
    return problems


def _of_informer(informer: Informer, name: str, store: WatchedStore) -> Iterator[str]:
    if informer._field_selector or informer._label_selector:
        return
    entries = store.entries(storage_of(informer.kind))
    truth = {Key(entry.key.namespace, entry.key.name): entry.revision for entry in entries}
    copy = {key_of(obj): revision_of(obj) for obj in informer.all()}
    if truth != copy:
        odd = sorted(map(str, dict(truth.items() ^ copy.items())))
        yield f"I13: {name} has an old copy of {informer.kind.plural} {odd}"


def _of_scheduler(binder: Binder, store: WatchedStore) -> Iterator[str]:
    pods = store.objects(POD)
    for pod in pods:
        known = binder._cache.pod(uid_of(pod))
        unfinished = pod["status"].get("phase") not in FINISHED_POD_PHASES
        if unfinished and known is not None and (known.node or "") != (pod["spec"].get("nodeName") or ""):
            yield f"I13: the scheduler believes {name_of(pod)} to be otherwise"
    gone = binder._cache.known_pods() - {uid_of(pod) for pod in pods}
    if gone:
        yield f"I13: the scheduler remembers {len(gone)} pods that are gone"


def _of_job_controller(controller: JobController, store: WatchedStore) -> Iterator[str]:
    jobs = {uid_of(job) for job in store.objects(JOB)}
    groundwork = controller._groundwork
    remembered = {*controller._waiting, *controller._read, *(uid for _, uid in controller._pods._jobs)}
    remembered |= {*groundwork._groups, *groundwork._objects._made}
    gone = remembered - jobs
    if gone:
        yield f"I13: the controllers remember {len(gone)} Jobs that are gone"
    pods = {uid_of(pod) for pod in store.objects(POD) if (controller_of(pod) or {}).get("uid") in jobs}
    known = {pod.uid for owner in controller._pods._jobs for pod in controller._pods.of(*owner)}
    if known != pods:
        yield f"I13: the controllers know of {len(known)} pods of Jobs, there are {len(pods)}"
