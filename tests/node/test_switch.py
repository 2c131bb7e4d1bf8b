from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hekla.node import records
from hekla.node.pod_network import choose_network
from hekla.node.switch import LOCK, RECORD, link_name
from tests.e2e.local_cluster import processes_of
from tests.eventually import eventually
from tests.node.rig import ACCOUNTS, USER, as_account, environment, sweep_as

ASK = """
import sys
from pathlib import Path
from hekla.node.switch_client import SwitchClient
SwitchClient(Path(sys.argv[1])).describe()
"""


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(9, 32)), max_size=8))
def test_the_range_chosen_overlaps_no_route(routes: list[tuple[int, int, int]]) -> None:
    networks = [
        IPv4Network((10 << 24 | second << 16 | third << 8, length), strict=False) for second, third, length in routes
    ]
    found = choose_network(networks)
    assert found.prefixlen == 16
    assert found.is_private
    assert not any(found.overlaps(each) for each in networks)


def test_where_everything_is_routed_a_range_is_chosen_all_the_same() -> None:
    everything = [IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")]
    assert choose_network(everything).is_private


def test_the_range_used_before_is_kept_while_it_is_free() -> None:
    assert choose_network([], "10.200.0.0/16") == IPv4Network("10.200.0.0/16")
    assert choose_network([IPv4Network("10.200.3.0/24")], "10.200.0.0/16") == IPv4Network("10.77.0.0/16")


def test_link_names_fit_and_differ() -> None:
    assert link_name("0175b15f-4fae-4fab-ab2c-13527e3f7d91") == "v0175b15f4fae4"
    assert len(link_name("x" * 40)) <= 15


@contextmanager
def whoever_needs_a_switch(account: str, data_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*as_account(account), "-c", ASK, data_dir], env=environment(data_dir), cwd="/") as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=ACCOUNTS)
def account(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def data_dir(account: str) -> Iterator[Path]:
    """A node's. Not below pytest's own folder, which is closed to an ordinary user."""
    made = Path(tempfile.mkdtemp(prefix="hekla-switch-"))
    if account == "user" and os.geteuid() == 0:
        os.chown(made, USER, USER)
    yield made
    sweep_as(account, made)
    assert processes_of(made) == []
    shutil.rmtree(made)


@pytest.mark.root
def test_one_that_was_ordered_outlives_who_ordered_it(account: str, data_dir: Path) -> None:
    with whoever_needs_a_switch(account, data_dir) as agent:
        assert agent.wait(60) == 0
    assert records.is_alive(records.read(str(data_dir / RECORD))["process"])


@pytest.mark.root
def test_one_whose_agent_was_killed_before_it_was_on_record_goes_by_itself(account: str, data_dir: Path) -> None:
    with (data_dir / LOCK).open("w") as another:
        (data_dir / LOCK).chmod(0o666)
        fcntl.flock(another, fcntl.LOCK_EX)  # so that it comes no further than this
        with whoever_needs_a_switch(account, data_dir) as agent:
            eventually(lambda: waits_for(data_dir / LOCK), what="a switch waits for its turn")
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        # Whoever clears up now finds nothing on record.
        sweep_as(account, data_dir)
        assert any("hekla.node.switch" in each for each in processes_of(data_dir))
    eventually(lambda: processes_of(data_dir) == [], seconds=20)


@pytest.mark.root
def test_one_that_nobody_wants_any_more_takes_nothing_away_from_the_next(account: str, data_dir: Path) -> None:
    with (data_dir / LOCK).open("w") as another:
        (data_dir / LOCK).chmod(0o666)
        fcntl.flock(another, fcntl.LOCK_EX)
        with whoever_needs_a_switch(account, data_dir) as agent:
            eventually(lambda: waits_for(data_dir / LOCK), what="a switch waits for its turn")
            agent.send_signal(signal.SIGKILL)
            agent.wait()
        sweep_as(account, data_dir)
        with whoever_needs_a_switch(account, data_dir) as agent:
            eventually(lambda: waits_for(data_dir / LOCK, 2), what="the next waits too")
            another.close()
            assert agent.wait(60) == 0
    with whoever_needs_a_switch(account, data_dir) as agent:
        assert agent.wait(60) == 0
    assert records.is_alive(records.read(str(data_dir / RECORD))["process"])
    eventually(lambda: len(processes_of(data_dir)) == 1, what="one switch is left")


def waits_for(lock: Path, processes: int = 1) -> bool:
    inode = f":{lock.stat().st_ino} "
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if "-> " in line and inode in line]
    return len(waiting) == processes
