"""How answers combine."""

from __future__ import annotations

from typing import Any

import pytest

from hekla.api.reasons import Reason
from hekla.scheduler.extension import GroupEnqueueable, GroupPipelined, SchedulerPlugin, Vote
from hekla.scheduler.fit import Unfit
from hekla.scheduler.session import GroupState, Session
from hekla.scheduler.tiers import OpenPlugin, Tiers
from hekla.scheduler.trial.miniature import Miniature

NO = Unfit(Reason.NOT_ENOUGH_RESOURCES, "no")


class Voter(SchedulerPlugin, GroupEnqueueable, GroupPipelined):
    def group_enqueueable(self, state: GroupState) -> tuple[Vote, Unfit | None]:
        vote = self.arguments["vote"]
        return vote, NO if vote is Vote.REJECT else None

    def group_enqueued(self, state: GroupState) -> None:
        return None

    def group_pipelined(self, state: GroupState) -> Vote:
        vote: Vote = self.arguments["vote"]
        return vote


def tiers_of(votes: list[list[Vote]], off: frozenset[str] = frozenset()) -> tuple[Tiers, Any]:
    world = Miniature()
    world.add({"queues": [{"name": "default"}], "groups": [{"name": "a"}]})
    session = Session(world.cache().snapshot())
    opened = [[OpenPlugin("voter", Voter({"vote": vote}, session), off) for vote in tier] for tier in votes]
    return Tiers(session, opened), session.groups[0]


@pytest.mark.parametrize(
    ("votes", "outcome"),
    [
        ([[Vote.REJECT, Vote.PERMIT]], False),
        ([[Vote.PERMIT, Vote.REJECT]], False),
        ([[Vote.PERMIT], [Vote.REJECT]], True),
        ([[Vote.ABSTAIN], [Vote.REJECT]], False),
        ([[Vote.ABSTAIN], [Vote.ABSTAIN]], True),
        ([[]], True),
    ],
)
def test_a_vote_is_decided_tier_by_tier(votes: list[list[Vote]], outcome: bool) -> None:
    tiers, state = tiers_of(votes)
    assert tiers.group_pipelined(state) is outcome
    assert tiers.group_enqueueable(state) == (None if outcome else [NO])


def test_a_switched_off_point_does_not_vote() -> None:
    tiers, state = tiers_of([[Vote.REJECT]], frozenset({"enableJobEnqueued"}))
    assert tiers.group_enqueueable(state) is None
    assert tiers.group_pipelined(state) is False
