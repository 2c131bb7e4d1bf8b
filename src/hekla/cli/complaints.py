"""Why a job has not even got a gang that could wait: what a controller could not do for it, from its Warnings."""

from __future__ import annotations

from hekla.api.kinds import EVENT, JOB, Obj
from hekla.api.reasons import Reason
from hekla.cli.events import time_of_event
from hekla.client.rest import Client
from hekla.errors import Forbidden

# Upstream's reasons of Events, and what they are called in lists.
_CODES = {"PVCError": Reason.WAITING_FOR_VOLUME, "PluginError": Reason.JOB_PLUGIN_FAILED}
# A gang is refused for one of several reasons, which the words tell apart.
_REFUSED_GANG = "PodGroupError"
_REFUSALS = (
    ("can only submit PodGroup to queue with state", Reason.QUEUE_NOT_OPEN),
    ("unable to find queue", Reason.QUEUE_UNUSABLE),
    ("exceeded quota", Reason.QUOTA_EXCEEDED),
)
_KNOWN = frozenset(map(str, Reason))


def code_of(event: Obj) -> str:
    """What an Event's reason is called where a job's is shown."""
    reason, message = str(event.get("reason", "")), str(event.get("message", ""))
    if reason == _REFUSED_GANG:
        return next((str(code) for words, code in _REFUSALS if words in message), reason)
    return str(_CODES.get(reason, reason))


async def last_complaints(client: Client, namespace: str | None) -> dict[str, str]:
    """The code of the last thing that could not be done for each job, by its uid; {} for who may not see Events."""
    try:
        about = f"type=Warning,involvedObject.kind={JOB.kind}"
        events = (await client.list(EVENT, namespace, field_selector=about)).items
    except Forbidden:
        return {}
    return {
        str(event["involvedObject"].get("uid")): code_of(event)
        for event in sorted(events, key=time_of_event)
        if code_of(event) in _KNOWN
    }
