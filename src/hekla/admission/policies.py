"""Lifecycle policies of a job or a task: which events and actions a person may use."""

from __future__ import annotations

from hekla.api.batch import JobAction, JobEvent
from hekla.api.kinds import Obj

_EVENTS = sorted(
    {
        JobEvent.ANY,
        JobEvent.POD_FAILED,
        JobEvent.POD_EVICTED,
        JobEvent.POD_PENDING,
        JobEvent.UNKNOWN,
        JobEvent.TASK_COMPLETED,
        JobEvent.TASK_FAILED,
        JobEvent.JOB_UPDATED,
    }
)
ACTIONS = sorted(
    {
        JobAction.ABORT_JOB,
        JobAction.RESTART_JOB,
        JobAction.RESTART_TASK,
        JobAction.RESTART_POD,
        JobAction.RESTART_PARTITION,
        JobAction.TERMINATE_JOB,
        JobAction.COMPLETE_JOB,
        JobAction.RESUME_JOB,
    }
)


def validate_policies(policies: list[Obj] | None, path: str) -> str:
    """What is wrong with a list of policies, as one message; empty when nothing is.

    # parity: looking stops at the first faulty policy; the rule about `*` is applied to what was seen by then.
    """
    errors: list[str] = []
    events: set[str] = set()
    codes: set[int] = set()
    for policy in policies or ():
        errors = _policy_errors(policy, path, events, codes)
        if errors:
            break
    if JobEvent.ANY in events and len(events) > 1:
        errors.append("if there's * here, no other policy should be here")
    if not errors:
        return ""
    allowed = f"valid events are [{' '.join(_EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"
    return f"{_block(errors)} {allowed}"


def policy_warnings(policies: list[Obj] | None, path: str) -> list[str]:
    """Actions for exit codes that are none: upstream lets them in, and nothing happens on that exit code."""
    unknown = [
        (index, policy.get("action") or "", policy["exitCode"])
        for index, policy in enumerate(policies or ())
        if policy.get("exitCode") and policy.get("action") not in ACTIONS
    ]
    return [
        f'{path}[{index}].action: "{action}" is no action, so nothing answers {code}' for index, action, code in unknown
    ]


def _policy_errors(policy: Obj, path: str, events: set[str], codes: set[int]) -> list[str]:
    given = dict.fromkeys([*(policy.get("events") or ()), *([policy["event"]] if policy.get("event") else [])])
    code, action = policy.get("exitCode"), str(policy.get("action") or "")
    if given and code is not None:
        return ["must not specify event and exitCode simultaneously"]
    if not given and code is None:
        return ["either event and exitCode should be specified"]
    if code is not None:
        if code == 0:
            return ["0 is not a valid error code"]
        if code in codes:
            return [f"duplicate exitCode {code}"]
        codes.add(code)
        return []
    for event in given:
        if event not in _EVENTS:
            return [f'{path}: Invalid value: "{event}": invalid policy event']
        if action not in ACTIONS:
            return [f'{path}: Invalid value: "{action}": invalid policy action']
        if event in events:
            return [f"duplicate event {event}  across different policy"]
        events.add(event)
    return []


def _block(errors: list[str]) -> str:
    head = "1 error occurred:" if len(errors) == 1 else f"{len(errors)} errors occurred:"
    return head + "".join(f"\n\t* {error}" for error in errors) + "\n\n"
