"""Parts of GPU cards, and whole ones: which pod is on which card of its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hekla.api.devices import GPU_MEMORY
from hekla.api.reasons import Reason
from hekla.scheduler.arrays.cardscores import packed, spread
from hekla.scheduler.arrays.resources import Flags, Floats, Ints
from hekla.scheduler.cardbook import CardBook
from hekla.scheduler.cardpolicy import LeastFragments
from hekla.scheduler.cardtable import CardRequest
from hekla.scheduler.extension import Argument, NodeFilter, NodeScore, PairScore, SchedulerPlugin
from hekla.scheduler.fit import Refusal
from hekla.scheduler.rows import PodStatus, show_amount
from hekla.scheduler.session import GroupState, PodClass, Session

_SHARING, _NUMBER = "deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable"
_POLICY, _WEIGHT = "deviceshare.SchedulePolicy", "deviceshare.ScheduleWeight"
_FRAGMENTATION = "fragmentation"
_POLICIES = ("", "binpack", "spread", _FRAGMENTATION)

_Points = Callable[[Floats, Floats, int, float], Floats]  # from room, size, whole cards and share, as in `cardscores`


def _not_yet(value: Any) -> None:
    if value:
        raise ValueError("not supported yet")


def _known_policy(value: Any) -> None:
    if value not in _POLICIES:
        raise ValueError(f"no policy named {value!r} (known: {', '.join(filter(None, _POLICIES))})")


_LATER = Argument(bool, False, _not_yet)


class DeviceShare(SchedulerPlugin, NodeFilter, NodeScore):
    """A pod gets a part of one card, or whole cards; no card is given twice."""

    BY_CONSTRAINTS: ClassVar[bool] = True

    ARGUMENTS: ClassVar[Mapping[str, Argument]] = {
        _SHARING: Argument(bool, False),
        _NUMBER: Argument(bool, False),
        "deviceshare.VGPUEnable": _LATER,
        "deviceshare.AscendMindClusterVNPUEnable": _LATER,
        "deviceshare.AscendHAMiVNPUEnable": _LATER,
        "deviceshare.NodeLockEnable": _LATER,
        _POLICY: Argument(str, "", _known_policy),
        _WEIGHT: Argument(int, 0),
        # parity: of virtual GPUs alone, and in upstream's files also without them.
        "deviceshare.KnownGeometriesCMName": Argument(str, "volcano-vgpu-device-config"),
        "deviceshare.KnownGeometriesCMNamespace": Argument(str, "kube-system"),
        "deviceshare.GPUExclusiveRules": Argument(list, None, _not_yet),
    }

    def __init__(self, arguments: Mapping[str, Any], session: Session) -> None:
        super().__init__(arguments, session)
        self._book: CardBook | None = None
        cards = session.snapshot.nodes.cards
        if cards is not None and (arguments[_SHARING] or arguments[_NUMBER]):
            self._book = CardBook(cards, session.snapshot.shapes, sharing=arguments[_SHARING])
            session.cards = self._book
            session.movers.append(self._moved)
        self._fragments: LeastFragments | None = None
        if self._book is not None and arguments[_POLICY] == _FRAGMENTATION and arguments[_WEIGHT]:
            self._fragments = LeastFragments(session, self._book)
            self._book.prefer = self._fragments.prefer

    @classmethod
    def objections(cls, arguments: Mapping[str, Any]) -> Sequence[str]:
        if arguments[_SHARING] and arguments[_NUMBER]:
            return (f"{_SHARING} and {_NUMBER} may not both be true",)
        return ()

    def refusals(self, of: PodClass) -> Sequence[Refusal]:
        book, request = self._book, self._request(of.shape)
        if book is None or request is None:
            return ()
        unsuited = ~book.ever_fits(request)
        taken = ~book.fits(request, at_once=False) & ~unsuited
        found = []
        if unsuited.any():
            text = "node(s) had too few cards" if request.whole else "node(s) had no card of that size"
            words = _words_of_size(book, request) if unsuited.all() else ""
            found.append(Refusal(text, Reason.NO_NODE_MATCHES, unsuited, words=words))
        if taken.any():
            text = f"no enough gpu {'number' if request.whole else 'memory'} on node(s)"
            words = _words(book, request)
            found.append(Refusal(text, Reason.NOT_ENOUGH_RESOURCES, taken, final=False, words=words))
        return found

    def not_yet(self, of: PodClass) -> Flags | None:
        request = self._request(of.shape)
        if self._book is None or request is None:
            return None
        return ~self._book.fits(request, at_once=True)

    def pair_score(self, shape: int) -> PairScore | None:
        weight, policy = self.arguments[_WEIGHT], self.arguments[_POLICY]
        if self._fragments is not None:
            # Who asks for no card may still take the CPU without which a card is of no use.
            return self._fragments.score(shape, float(weight))
        request = self._request(shape)
        if self._book is None or request is None or not weight or not policy:
            return None
        return _CardScore(self._book, packed if policy == "binpack" else spread, request, float(weight))

    def _request(self, shape: int) -> CardRequest | None:
        return None if self._book is None else self._book.request(shape)

    def _moved(self, state: GroupState, positions: Sequence[int], lines: Sequence[int], sign: int) -> None:
        assert self._book is not None
        for position, line in zip(positions, lines):
            request = self._book.request(int(state.group.shape[position]))
            if request is not None:
                status = PodStatus(int(state.status[position]))
                self._book.move(state.group.pods[position], request, line, status, sign)


@dataclass(slots=True, eq=False)
class _CardScore:
    """Pods that get cards are placed one by one: how many of a class were placed before is in the book already."""

    book: CardBook
    points: _Points
    request: CardRequest
    weight: float

    def __call__(self, lines: Ints | slice | None, _placed: Ints | int) -> Floats:
        at = slice(None) if lines is None else lines
        room = self.book.room(at, at_once=True)
        return self.weight * self.points(room, self.book.size[at], self.request.whole, self.request.share)


def _words_of_size(book: CardBook, request: CardRequest) -> str:
    """What no node would do for, if nobody were on its cards."""
    if request.whole:
        return f"a pod asks for {request.whole} cards, no node has more than {book.most()} in good health"
    wanted, largest = (show_amount(GPU_MEMORY, amount) for amount in (request.share, book.largest()))
    return f"a pod asks for {wanted} of one card, the largest has {largest}"


def _words(book: CardBook, request: CardRequest) -> str:
    if request.whole:
        return f"too few cards are idle: a pod asks for {request.whole}, the idlest node has {book.idlest()}"
    wanted, most = (show_amount(GPU_MEMORY, amount) for amount in (request.share, book.roomiest()))
    return f"no card has enough room: a pod asks for {wanted} of one, the roomiest has {most} free"
