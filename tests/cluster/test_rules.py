"""What a real kube-apiserver says of values that break a definition's rules: the table our own server is held to."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hekla.api.kinds import CUSTOM_RESOURCE_DEFINITION
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from hekla.errors import ApiError, Invalid, NotFound
from tests.apiserver.mistyped import TOLD as MISTYPED
from tests.apiserver.mistyped import causes, mistyped_widgets
from tests.apiserver.rig import WIDGET
from tests.apiserver.ruled import TOLD, ruled_widgets
from tests.cluster.control_plane import ControlPlane
from tests.eventually import until

pytestmark = pytest.mark.cluster


def test_a_real_server_says_the_same_of_what_breaks_a_rule(own_plane: ControlPlane) -> None:
    async def ask() -> list[str]:
        async with client_from_files([own_plane.kubeconfig]) as client:
            await client.create(CUSTOM_RESOURCE_DEFINITION, ruled_widgets())
            await until(lambda: is_served(client), what="widgets are served", seconds=30)
            return [await refusal(client, {name: value}) for name, value, _ in TOLD]

    assert asyncio.run(ask()) == [told for _, _, told in TOLD]


def test_a_real_server_says_the_same_of_what_is_not_of_the_wanted_type(own_plane: ControlPlane) -> None:
    async def ask() -> list[list[str]]:
        async with client_from_files([own_plane.kubeconfig]) as client:
            with contextlib.suppress(NotFound):
                await client.delete(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
            await until(lambda: is_gone(client), what="other widgets are gone", seconds=30)
            await client.create(CUSTOM_RESOURCE_DEFINITION, mistyped_widgets())
            await until(lambda: is_checked(client), what="widgets are served", seconds=30)
            return [await causes(client, spec) for spec, _ in MISTYPED]

    assert asyncio.run(ask()) == [sorted(told) for _, told in MISTYPED]


async def is_gone(client: Client) -> bool:
    try:
        await client.get(CUSTOM_RESOURCE_DEFINITION, "widgets.example.org")
    except NotFound:
        return True
    return False


async def is_checked(client: Client) -> bool:
    """Whether there are widgets of the definition that is meant."""
    try:
        return bool(await causes(client, {"mode": "no"}))
    except (ApiError, NotFound):
        return False


async def is_served(client: Client) -> bool:
    """Whether there are widgets, and rules for them."""
    try:
        return bool(await refusal(client, {"forbidden": {}}))
    except (ApiError, NotFound):
        return False


async def refusal(client: Client, spec: dict[str, object]) -> str:
    widget = {"metadata": {"generateName": "w-"}, "spec": spec}
    try:
        await client.create(WIDGET, {"apiVersion": WIDGET.api_version, "kind": WIDGET.kind, **widget})
    except Invalid as refused:
        return str(refused).partition(" is invalid: ")[2]
    return ""
