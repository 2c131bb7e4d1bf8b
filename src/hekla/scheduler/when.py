"""When something is written of a gang, of its pods and of its queue: one decision, from plain values.

A cycle finds what is so now, and much of it is otherwise in a moment: a pod that waits is placed, one that is lost is
made again. What somebody acts on is written at once; the rest waits for as long as one of these rules says, in periods
of the scheduler:

    said      it stands there already                                         not at all
    news      another phase, a first verdict, a node that others left         at once
    loss      what a gang has lost, or how it ended                           3/4 after the first loss
    back      a gang that was placed before enters again with its pods        30; before that it says that it runs
    filling   all of a gang whose pods are still being made, or leaving       1 without a change of them; 30 in all
    passing   counts and words of a gang whose pods are on their way          30; before that they go with its phase
    patience  that a gang or a pod waits; a verdict in other words            1
    counts    how many pods do what, another reason to wait, a queue's sums   1 after the last write
    words     the same reason in other words                                  1, 2, 4 ... 300 after the last write

An Event that says nothing new is told again after a minute; that a gang is ready, only when it has been warned of
since. One of a step that a gang has just taken is told at once, and only where there are few of them: nobody reads
thousands, and each costs a write.

Times are seconds of one clock. One that has passed means at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

NEVER = math.inf
_LOSS = 0.75  # pods leave in a second or more, and come in less
_LONGEST = 30  # after which is told what was still changing until then
_LONGEST_REST = 300  # of words that change all the time
_SAME_EVENT_SECONDS = 60.0
_STEPS_AT_ONCE = 100
_STEPS_PER_SECOND = 10
READY = "Scheduled"  # that a group is ready is news once, however long it runs


Rule = Literal["said", "news", "loss", "back", "filling", "passing", "patience", "counts", "words"]

# What is happening to a gang.
Course = Literal[
    "steady",
    "filling",  # it lacks pods that are probably being made
    "filled",  # it lacks pods, and has stopped growing
    "loss",  # it has lost pods, or has ended
    "back",  # it was placed before, and its pods are on their way again
]

# What a group has to say beyond what it says.
Change = Literal[
    "nothing",
    "phase",
    "verdict",  # a condition of a type that it has not had
    "lack",  # the same, of pods that it lacks and none of which waits: a loss, too
    "passing",  # whatever it is, of pods that are on their way
    "counts",  # or why it waits
    "words",  # of a condition, with counts or another reason to wait
    "figures",  # nothing but words of a condition
    "remark",  # nothing but words of an annotation
]


class When(NamedTuple):
    at: float
    rule: Rule


class Hold(NamedTuple):
    """Until when the status of a gang is held back, whatever there is to write of it; 0 where it is not."""

    course: Course
    since: float = 0.0
    until: float = 0.0


class Said(NamedTuple):
    """The last write of something."""

    at: float
    times: int  # in other words, one soon after the other


class Told(NamedTuple):
    """The last Event of its reason."""

    message: str
    at: float


AT_ONCE = When(0.0, "news")
# Made once: cycles ask for every group.
_UNHELD: dict[Course, Hold] = {course: Hold(course) for course in get_args(Course)}


@dataclass(frozen=True, slots=True)
class Timetable:
    period: float

    def hold(self, course: Course, standing: Hold | None, now: float) -> Hold:
        """What is found again is not put off; and what is held for one reason and then another, not for ever."""
        if course != "loss" and course != "back":
            return _UNHELD[course]
        if standing is not None and standing.course == course:
            return standing
        since = standing.since if standing is not None and standing.until else now
        longest = since + _LONGEST * self.period
        return Hold(course, since, longest if course == "back" else min(now + _LOSS * self.period, longest))

    def group(self, change: Change, hold: Hold, last: Said | None, now: float) -> When:
        """When its status and annotations are written: then, or earlier where something was to be written earlier, but
        not before the hold ends."""
        if hold.course == "filling":
            return When(NEVER, "filling")
        due = self._changed(change, last, now)
        if due.at >= hold.until:
            return due
        return When(hold.until, "loss" if hold.course == "loss" else "back")

    def patience(self, hold: Hold, now: float) -> When:
        """When an Event and the pods may complain that the gang waits."""
        if hold.course == "filling":
            return When(NEVER, "filling")
        if hold.course == "filled":
            return When(now, "filling")
        if hold.course == "loss":
            return When(hold.until, "loss")
        return When(now + self.period, "patience")

    def complaint(self, hold: Hold, standing: When | None, now: float) -> When:
        """When a Warning is told of the gang; one that was due earlier is not put off."""
        patience = self.patience(hold, now)
        return standing if standing is not None and standing.at < patience.at < NEVER else patience

    def pod(self, patience: When, last: Said | None, *, promised: bool) -> When:
        """When a pod says why it waits: most go within the second. That others leave for it is news."""
        if promised and patience.at < NEVER:
            return AT_ONCE
        return patience if last is None else _later(patience, self._words(last))

    def queue(self, last: Said | None) -> When:
        return self._counts(last)

    def filling(self, since: float, grown: float) -> When:
        """When a gang counts as filled that has been there since, and had other pods until it had grown."""
        return When(min(grown, since + (_LONGEST - 1) * self.period) + self.period, "filling")

    def said(self, last: Said | None, now: float, *, reworded: bool) -> Said:
        """What to remember of a write. What has stood for twice as long as it had to begins anew."""
        if last is None or now >= last.at + 2 * self._rest(last):
            return Said(now, 1)
        return Said(now, last.times + reworded)

    def _changed(self, change: Change, last: Said | None, now: float) -> When:
        if change == "nothing":
            return When(NEVER, "said")
        if change == "phase" or change == "verdict":
            return AT_ONCE
        if change == "lack":
            return When(now + _LOSS * self.period, "loss")
        if change == "passing":
            return When(now + _LONGEST * self.period, "passing")
        if change == "counts":
            return self._counts(last)
        if change == "remark":
            return self._words(last)
        held = When(now + self.period, "patience")
        return _later(held, self._words(last)) if change == "figures" else held

    def _counts(self, last: Said | None) -> When:
        return When(0.0 if last is None else last.at + self.period, "counts")

    def _words(self, last: Said | None) -> When:
        """The more often something has been said in other words, the longer it stands: each pod that comes or goes
        changes the figures in what all who wait have to say."""
        return When(0.0 if last is None else last.at + self._rest(last), "words")

    def _rest(self, last: Said) -> float:
        return self.period * min(1 << min(last.times - 1, 10), _LONGEST_REST)


class Allowance:
    """How many Events of steps on the way may be told: a hundred at once, then ten a second."""

    def __init__(self) -> None:
        self._left: float = _STEPS_AT_ONCE
        self._at = -math.inf

    def take(self, now: float) -> bool:
        self._left = min(self._left + (now - self._at) * _STEPS_PER_SECOND, _STEPS_AT_ONCE)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def is_told_again(last: Told | None, reason: str, message: str, now: float) -> bool:
    if last is None or last.message != message:
        return True
    return reason != READY and now - last.at >= _SAME_EVENT_SECONDS


def _later(one: When, other: When) -> When:
    return one if one.at >= other.at else other
