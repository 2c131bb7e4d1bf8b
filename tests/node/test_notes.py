"""What the machine does not allow is said where people look."""

from __future__ import annotations

import asyncio
import os

import pytest

from hekla.api.core import NODE_NOTES
from hekla.api.kinds import NODE
from hekla.node.user_ids import missing_for_ids
from tests.node.rig import ACCOUNTS, NODE_NAME, rig


@pytest.mark.root
@pytest.mark.parametrize("account", ACCOUNTS)
def test_a_node_tells_what_is_missing_and_forgets_it_when_it_is_there(account: str) -> None:
    # Root's tests use an account that nothing is known of.
    one_id = account == "user" and (os.geteuid() == 0 or bool(missing_for_ids()))

    async def main() -> None:
        async with rig(account) as node:
            for isolation, said in (("process", "pods are plain processes"), ("namespaces", "")):
                await node.start_agent(isolation=isolation)
                text = (await node.client.get(NODE, NODE_NAME))["metadata"]["annotations"][NODE_NOTES]
                assert ("plain processes" in text) is bool(said)
                assert ("change their user, such as sshd" in text) is (not said and one_id)
                await node.kill_agent()

    asyncio.run(main())
