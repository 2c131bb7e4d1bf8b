"""What lists call that which a controller could not do for a job."""

from __future__ import annotations

import pytest

from hekla.cli.complaints import code_of

REFUSED = 'Failed to create PodGroup, err: admission webhook "validatepodgroup.volcano.sh" denied the request: '


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        ("PVCError", "Failed to create PVC, err: pvc a is not found", "WaitingForVolume"),
        ("PluginError", "Execute plugin when job add failed, err: no", "JobPluginFailed"),
        ("PodGroupError", REFUSED + "can only submit PodGroup to queue with state `Open`, queue `q` status is ``.",
         "QueueNotOpen"),
        ("PodGroupError", REFUSED + 'unable to find queue: queue.scheduling.volcano.sh "q" not found',
         "QueueUnusable"),
        ("PodGroupError", 'Failed to create PodGroup, err: podgroups "a" is forbidden: exceeded quota: few, requested: '
         "count/podgroups.scheduling.volcano.sh=1", "QuotaExceeded"),
        ("PodGroupError", "Failed to create PodGroup, err: no answer", "PodGroupError"),
        ("FailedCreate", "Error creating pods: [...]", "FailedCreate"),
    ],
)  # fmt: skip
def test_an_event_has_the_code_of_what_was_in_the_way(reason: str, message: str, code: str) -> None:
    assert code_of({"reason": reason, "message": message}) == code
