"""Answers of plugins that are not ours, looked at before anybody reckons with them.

What is of the wrong type or size, or no number, counts as the plugin's failure, as if it had raised: otherwise it would
come up somewhere in our code, and nobody could say whose fault it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from numbers import Integral, Real
from typing import Any

import numpy as np

from hekla.scheduler.books import Book, Entry
from hekla.scheduler.extension import Measured, SchedulerPlugin, Vote
from hekla.scheduler.figure import Figure
from hekla.scheduler.fit import Refusal, Unfit
from hekla.scheduler.session import Session

_OUR_PLUGINS = "hekla.scheduler.plugins."
_TRUTHS = (bool, np.bool_)


class Nonsense(Exception):
    """An answer that means nothing at the point it was given."""


# looks_right(session, arguments, answer)
_Check = Callable[[Session, Sequence[Any], Any], bool]


def watch_answers(plugin: SchedulerPlugin, session: Session) -> None:
    """From now on what the plugin says has the form it should have, or is an error of the plugin's."""
    if type(plugin).__module__.startswith(_OUR_PLUGINS):
        return
    for name, looks_right in _CHECKS.items():
        ask = getattr(plugin, name, None)
        if ask is not None:
            _replace(plugin, name, partial(_answer, plugin, session, name, ask, looks_right))
    if isinstance(plugin, Measured):
        told = partial(_all_of, plugin.figures)
        _replace(plugin, "figures", partial(_answer, plugin, session, "figures", told, _are_figures))
    if hasattr(plugin, "pair_score"):
        _replace(plugin, "pair_score", partial(_pair_score, plugin, session, plugin.pair_score))


def _replace(plugin: SchedulerPlugin, name: str, ask: Callable[..., Any]) -> None:
    """Also where the plugin's class lets nobody set anything."""
    object.__setattr__(plugin, name, ask)


def _answer(
    self: SchedulerPlugin, session: Session, name: str, ask: Callable[..., Any], looks_right: _Check, /,
    *given: Any, **named: Any,
) -> Any:  # fmt: skip
    """`self` is who is to blame for what is raised here (`blame.py`)."""
    answer = ask(*given, **named)
    if named:
        # We name no argument, but a plugin may ask itself.
        given = signature(ask).bind(*given, **named).args
    if not looks_right(session, given, answer):
        raise Nonsense(f"{name} answered {_shown(answer)}")
    return answer


def _pair_score(self: SchedulerPlugin, session: Session, ask: Callable[[int], Any], shape: int) -> Any:
    score = ask(shape)
    if score is None:
        return None
    if not callable(score):
        raise Nonsense(f"pair_score answered {_shown(score)}")
    return partial(_answer, self, session, "pair_score", score, _is_score_of_lines)


def _all_of(ask: Callable[[], Any]) -> Any:
    """What may be told one by one."""
    answer = ask()
    return list(answer) if isinstance(answer, Iterable) else answer


def _shown(answer: Any) -> str:
    text = f"an array of {answer.shape}" if isinstance(answer, np.ndarray) and answer.size > 1 else repr(answer)
    return text if len(text) <= 80 else text[:79] + "…"


def _is_number(answer: Any) -> bool:
    return isinstance(answer, Real) and bool(np.isfinite(float(answer)))


def _is_whole(answer: Any) -> bool:
    return isinstance(answer, Integral) and not isinstance(answer, bool)


def _is_row(answer: Any, length: int) -> bool:
    """One number for each of so many."""
    numbers = isinstance(answer, np.ndarray) and answer.shape == (length,) and answer.dtype.kind in "biuf"
    return numbers and bool(np.isfinite(answer).all())


def _is_score_of_lines(session: Session, given: Sequence[Any], answer: Any) -> bool:
    return _is_row(answer, len(np.arange(len(session.snapshot.nodes))[slice(None) if given[0] is None else given[0]]))


def _are_refusals(session: Session, given: Sequence[Any], answer: Any) -> bool:
    return isinstance(answer, list | tuple) and all(
        isinstance(refusal, Refusal) and _are_flags(session, refusal.nodes) for refusal in answer
    )


def _are_flags(session: Session, answer: Any) -> bool:
    """Yes or no for each node."""
    return isinstance(answer, np.ndarray) and answer.dtype == bool and answer.shape == (len(session.snapshot.nodes),)


def _are_candidates(session: Session, given: Sequence[Any], answer: Any) -> bool:
    candidates = {id(candidate) for candidate in given[1]}
    return answer is None or (isinstance(answer, list) and all(id(one) in candidates for one in answer))


def _is_pair(answer: Any, looks_right: Callable[[Any], bool]) -> bool:
    """Something, and what stands in the way of more of it."""
    pair = isinstance(answer, tuple) and len(answer) == 2
    return pair and looks_right(answer[0]) and (answer[1] is None or isinstance(answer[1], Unfit))


def _are_figures(session: Session, given: Sequence[Any], answer: Any) -> bool:
    return isinstance(answer, list) and all(
        isinstance(one, Figure)
        and isinstance(one.labels, tuple)
        and _are_texts((one.name, *one.labels))
        and _is_number(one.value)
        for one in answer
    )


def _are_books(session: Session, given: Sequence[Any], answer: Any) -> bool:
    return isinstance(answer, list | tuple) and all(
        isinstance(book, Book) and all(_is_entry(session, entry) for entry in book.entries) for book in answer
    )


def _is_entry(session: Session, entry: Any) -> bool:
    """Of something there is. Only a limit may be endless."""
    known = isinstance(entry, Entry) and entry.resource in session.snapshot.columns.index
    return known and all(map(_is_number, entry[1:-1])) and (entry.limit == np.inf or _is_number(entry.limit))


def _are_texts(answer: Any) -> bool:
    return all(isinstance(one, str) for one in answer)


def _is_vote(answer: Any) -> bool:
    return isinstance(answer, Vote)


def _numbers(_session: Session, _given: Sequence[Any], answer: Any) -> bool:
    return isinstance(answer, tuple) and all(map(_is_number, answer))


def _number(_session: Session, _given: Sequence[Any], answer: Any) -> bool:
    return _is_number(answer)


def _whole(_session: Session, _given: Sequence[Any], answer: Any) -> bool:
    return _is_whole(answer)


def _truth(_session: Session, _given: Sequence[Any], answer: Any) -> bool:
    return isinstance(answer, _TRUTHS)


def _vote(_session: Session, _given: Sequence[Any], answer: Any) -> bool:
    return _is_vote(answer)


_CHECKS: Mapping[str, _Check] = {
    "group_key": _number,
    "queue_key": _numbers,
    "victim_queue_key": _number,
    "pod_keys": lambda _, given, answer: _is_row(answer, len(given[0].pods)),
    "group_valid": lambda _, __, answer: answer is None or isinstance(answer, Unfit),
    "group_ready": _truth,
    "pods_missing": _whole,
    "group_pipelined": _vote,
    "group_starving": _truth,
    "subgroup_key": _number,
    "subgroup_ready": _truth,
    "subgroup_missing": _whole,
    "subgroup_pipelined": _vote,
    "group_enqueueable": lambda _, __, answer: _is_pair(answer, _is_vote),
    "queue_overused": _truth,
    "queue_room": lambda _, __, answer: _is_pair(answer, _is_whole) and answer[0] >= 0,
    "may_reclaim": _truth,
    "preemptable": _are_candidates,
    "reclaimable": _are_candidates,
    "refusals": _are_refusals,
    "most_per_node": lambda _, __, answer: answer is None or _is_whole(answer),
    "standing_score": lambda session, _, answer: answer is None or _is_row(answer, len(session.snapshot.nodes)),
    "not_yet": lambda session, _, answer: answer is None or _are_flags(session, answer),
    "has_preference": _truth,
    "preference": lambda _, given, answer: _is_row(answer, len(given[1])),
    "following": lambda _, given, answer: answer is None or _is_row(getattr(answer, "points", None), len(given[1])),
    "queue_books": _are_books,
    "verdict": lambda _, __, answer: answer is None or isinstance(answer, _TRUTHS),
}
