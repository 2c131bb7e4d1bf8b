"""What a running pod has mounted changes with its source."""

from __future__ import annotations

import asyncio
from base64 import b64encode

import pytest

from hekla.api.kinds import CONFIG_MAP, SECRET
from tests.eventually import soon
from tests.node.rig import ACCOUNTS, Rig, phase, rig

pytestmark = pytest.mark.root


def test_mounted_config_maps_and_secrets_follow_their_sources() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[-1]) as node:
            await node.start_agent()
            await _change(node)
            # An agent that takes the pod back follows them, too, and catches up with what it missed.
            await node.kill_agent()
            await node.client.patch(CONFIG_MAP, "plan", {"data": {"step": "3"}}, "default")
            await node.start_agent()
            pod = await node.until("reader", lambda pod: phase(pod) == "Succeeded")
            assert node.log(pod) == "1 red\n2 blue\n3 blue\n"

    asyncio.run(main())


async def _change(node: Rig) -> None:
    await node.create("ConfigMap", "plan", data={"step": "1"})
    await node.create("Secret", "key", data={"colour": b64encode(b"red").decode()})
    await node.create("Service", "my-web", spec={"ports": [{"port": 80}], "selector": {"app": "web"}})
    script = """
        [ $MY_WEB_SERVICE_PORT = 80 ] && [ -n "$MY_WEB_SERVICE_HOST" ] || exit 7
        last=
        while [ "$last" != "3 blue" ]; do
            now="$(cat /plan/step) $(cat /key/colour)"
            if [ "$now" != "$last" ] && [ "$now" != "2 red" ] && [ "$now" != "1 blue" ]; then echo $now; last=$now; fi
            sleep 0.1
        done
    """
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("plan", "key")]
    volumes = [
        {"name": "plan", "configMap": {"name": "plan"}},
        {"name": "key", "projected": {"sources": [{"secret": {"name": "key"}}]}},
    ]
    await node.create_pod("reader", script, container={"volumeMounts": mounts}, volumes=volumes)
    pod = await node.running("reader")
    await soon(lambda: node.log(pod) == "1 red\n", what="it has read what was there first")
    await node.client.patch(CONFIG_MAP, "plan", {"data": {"step": "2"}}, "default")
    await node.client.patch(SECRET, "key", {"data": {"colour": b64encode(b"blue").decode()}}, "default")
    await soon(lambda: node.log(pod) == "1 red\n2 blue\n")
