"""Whoever makes what nobody acts on is told, through kubectl as people see it."""

from __future__ import annotations

import pytest

from tests.apiserver.live import LiveServer
from tests.kubectl import needs_newer_kubectl

QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: 1}}"
RANGE = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec: {limits: [{type: Pod, max: {cpu: 1}}]}"
BUDGET = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {minAvailable: 1}"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: x}]}}
"""


def said(live: LiveServer, text: str) -> str:
    return live.kubectl("create", "--dry-run=server", "-f", "-", stdin=text, check=False)


@needs_newer_kubectl
def test_what_has_no_effect_here_says_so(live: LiveServer) -> None:
    told = (
        "nobody acts on a Deployment of apps/v1 here, and no pod comes of it; a Job of batch.volcano.sh/v1alpha1 runs"
    )
    assert f"Warning: {told} pods\n" in said(live, DEPLOYMENT)


@pytest.mark.parametrize("text", [QUOTA, RANGE, BUDGET], ids=["quota", "range", "budget"])
def test_what_is_minded_is_taken_without_a_word(live: LiveServer, text: str) -> None:
    assert "Warning" not in said(live, text)
