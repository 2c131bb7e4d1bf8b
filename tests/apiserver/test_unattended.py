"""Whoever makes what nobody acts on is told, through kubectl as people see it."""

from __future__ import annotations

import pytest

from tests.apiserver.live import LiveServer
from tests.kubectl import needs_newer_kubectl

RANGE = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec: {limits: [{type: Pod, max: {cpu: 1}}]}"


@needs_newer_kubectl
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (RANGE, "nobody acts on a LimitRange here: pods get no defaults or limits from it"),
    ],
    ids=["range"],
)
def test_what_has_no_effect_here_says_so(live: LiveServer, text: str, told: str) -> None:
    assert f"Warning: {told}\n" in live.kubectl("create", "--dry-run=server", "-f", "-", stdin=text, check=False)
