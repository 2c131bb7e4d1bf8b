"""Lines about pods for somebody who reads them: a gang of a thousand that fails does so for one or two reasons."""

from __future__ import annotations

from collections.abc import Sequence

_EACH = 3  # so many that say the same have a line each; of more the first are named
_MOST_LINES = 20


def told_together(lines: Sequence[str]) -> list[str]:
    """Of lines `pod: what became of it` those that say the same as one, in the place of the first of them."""
    lines = list(dict.fromkeys(lines))
    pods: dict[str, list[str]] = {}
    for line in lines:
        pod, _, said = line.partition(": ")
        pods.setdefault(said, []).append(pod)
    told: dict[str, int] = {}
    for line in lines:
        said = line.partition(": ")[2]
        of = pods[said]
        if len(of) <= _EACH:
            told[line] = 1
        else:
            told[f"{', '.join(of[:_EACH])} and {len(of) - _EACH} more: {said}"] = len(of)
    shown = list(told)[:_MOST_LINES]
    left = len(lines) - sum(told[line] for line in shown)
    return [*shown, f"… and {left} more"] if left else shown
