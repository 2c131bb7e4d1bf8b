"""The benchmark of GPUs given away: its tables are the trace's, and every policy keeps to the cards there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.openb import NODES, PODS, NodeKind, PodKind, configs, draw, measure, read_trace


def test_the_cluster_is_that_of_the_trace() -> None:
    assert sum(NODES.values()) == 1213
    assert sum(kind.gpus * number for kind, number in NODES.items()) == 6212


def test_the_sample_of_pods_has_the_published_shares() -> None:
    kinds = [PodKind(*row[:4]) for row in PODS for _ in range(row[4])]
    assert len(kinds) == 1581
    without, part, one = (
        sum(map(belongs, kinds)) / len(kinds)
        for belongs in (
            lambda kind: kind.gpus == 0,
            lambda kind: kind.gpus == 1 and kind.units < 1000,
            lambda kind: kind.gpus == 1 and kind.units == 1000,
        )
    )
    assert (without, part, one) == pytest.approx((0.13, 0.38, 0.48), abs=0.03)


@pytest.mark.parametrize("policy", configs())
def test_a_policy_gives_away_no_more_than_there_is(policy: str) -> None:
    nodes = {NodeKind(32000, 131072, 4): 3, NodeKind(8000, 32768, 1): 2}
    pods = draw({PodKind(*row[:4]): row[4] for row in PODS}, 14_000, seed=1)
    assert 0.5 < measure(configs()[policy], nodes, pods, seed=1).allocated <= 1


def test_the_published_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,64000,262144,2,P100\n"
    )
    (tmp_path / "openb_pod_list_default.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np,6000,12288,1,460,,LS\n"
    )
    assert read_trace(tmp_path) == ({NodeKind(64000, 262144, 2): 2}, {PodKind(6000, 12288, 1, 460): 1})
