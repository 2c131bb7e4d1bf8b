from __future__ import annotations

import os
import socket

import pytest

from hekla.node.pause import ForkedPause
from tests.node.test_links import inside_a_network


@pytest.mark.parametrize("account", ["root", "user"])
def test_a_pause_that_cannot_begin_says_why(account: str) -> None:
    said = inside_a_network(
        account,
        """
from hekla.node.pause import fork_pause

os.dup2(1, 2)
try:
    fork_pause("x" * 100)
except OSError as error:
    print(error.strerror)
""",
    )
    assert "sethostname" in said[-2]
    assert said[-1] == "the pod's network could not be set up"


def test_a_pause_that_has_ended_by_itself_need_not_be_ended() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ForkedPause(child, ours).kill()
