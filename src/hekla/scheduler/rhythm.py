"""How soon one cycle may follow another.

A cycle looks at everybody who is on the way, whether or not there is something to decide about them. Where news comes
in a trickle, as from a busy API server, cycles right behind each other would look at the same gangs again and again and
take from that server the CPU it needs. So deciding has a share of the time. What was not used of it is saved up, within
limits: on a cluster that was idle a moment ago cycles come as fast as the news.
"""

from __future__ import annotations

SHARE = 0.1  # of the time, in the long run
_SAVED = 0.1  # seconds of deciding that can be saved up
_REST = 2.0  # times as long as a cycle took, whatever is saved
_LONGEST = 0.25  # seconds to wait for the sake of the share


class Rhythm:
    """`shortest` is waited after every change, so that what belongs together comes together; `longest` at the most."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._shortest = shortest
        self._longest = longest
        self._saved = _SAVED
        self._last = 0.0  # when the last cycle ended
        self._not_before = 0.0

    def pause(self, now: float) -> float:
        """The seconds until the cycle that a change calls for."""
        return max(self._shortest, self._not_before - now)

    def cycled(self, started: float, ended: float) -> None:
        took = ended - started
        self._saved = min(_SAVED, self._saved + SHARE * (ended - self._last)) - took
        # What a long wait would not pay back is not owed.
        self._saved = max(self._saved, -SHARE * _LONGEST)
        self._last = ended
        self._not_before = ended + min(max(_REST * took, -self._saved / SHARE), self._longest)
