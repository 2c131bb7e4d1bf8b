"""What a new agent makes of what an earlier one left."""

from __future__ import annotations

import os
from pathlib import Path

from hekla.api.kinds import Obj
from hekla.node import records
from hekla.node.cleanup import kill_containers, sweep
from hekla.node.directory import PodDirectory
from hekla.node.takeback import take_back
from tests.node.test_lifecycle import NOW, a_pod


def left_by_an_agent(folder: Path, pod: Obj) -> PodDirectory:
    pod["metadata"].update(uid="u-1", namespace="default")
    directory = PodDirectory(folder, "u-1")
    directory.claim(pod, "n1")
    return directory


def started(directory: PodDirectory, process: records.ProcessId) -> None:
    place = directory.attempt("main", 0)
    place.mkdir(parents=True)
    record = {"shim": process, "container": process, "startedAt": "2030-01-01T00:00:00Z"}
    records.write(str(place / "started.json"), record)


def dead() -> records.ProcessId:
    return {**records.process_id(os.getpid()), "start": 1}


def test_a_container_whose_shim_lives_is_running(tmp_path: Path) -> None:
    pod = a_pod()
    started(left_by_an_agent(tmp_path, pod), records.process_id(os.getpid()))
    assert take_back(pod, PodDirectory(tmp_path, "u-1"), NOW).containers["main"].running


def test_a_container_whose_shim_is_gone_without_a_word_has_ended_for_good(tmp_path: Path) -> None:
    pod = a_pod()
    directory = left_by_an_agent(tmp_path, pod)
    started(directory, dead())
    last = take_back(pod, directory, NOW).containers["main"].last
    assert last is not None
    assert last.exit is not None
    assert (last.exit["code"], last.exit["reason"]) == (137, "ContainerStatusUnknown")
    assert directory.exit_record("main", 0) == last.exit


def test_without_records_the_api_servers_word_counts(tmp_path: Path) -> None:
    pod = a_pod()
    running = {
        "name": "main",
        "containerID": "x",
        "restartCount": 2,
        "state": {"running": {"startedAt": "2030-01-01T00:00:00Z"}},
    }
    pod["status"] = {"podIP": "10.77.0.9", "containerStatuses": [running]}
    found = take_back(pod, left_by_an_agent(tmp_path, pod), NOW)
    assert found.address == "10.77.0.9"
    assert found.failed is not None
    assert found.failed.reason == "NodeShutdown"
    assert found.containers["main"].restart_count == 2
    assert found.containers["main"].next_number == 3


def test_a_finished_container_without_records_keeps_its_exit_code(tmp_path: Path) -> None:
    pod = a_pod("OnFailure")
    ended = {"terminated": {"exitCode": 5, "reason": "Error", "finishedAt": "2030-01-01T00:00:00Z"}}
    pod["status"] = {"containerStatuses": [{"name": "main", "containerID": "x", "restartCount": 0, "state": ended}]}
    last = take_back(pod, left_by_an_agent(tmp_path, pod), NOW).containers["main"].last
    assert last is not None
    assert last.exit is not None
    assert last.exit["code"] == 5


def test_a_start_that_nobody_claimed_is_made_impossible(tmp_path: Path) -> None:
    directory = left_by_an_agent(tmp_path, a_pod())
    place = directory.attempt("main", 0)
    (place / "scratch").mkdir(parents=True)
    assert kill_containers(directory, "r", "m") == (0, [])
    assert not place.exists()


def test_sweeping_an_empty_or_missing_place_does_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path).pods == 0
    assert sweep(tmp_path / "never").pods == 0
