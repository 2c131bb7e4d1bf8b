"""A Secret that asks for an account's token gets one that is good as long as both are there."""

from __future__ import annotations

import asyncio
import base64

from hekla.api.kinds import SECRET, SERVICE_ACCOUNT, Obj
from tests.apiserver.access.test_tokens import claims_of
from tests.apiserver.rig import Rig
from tests.local.builtins.test_furnishing import QUIET, with_builtins

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def wish(account: str = "default") -> Obj:
    annotations = {"kubernetes.io/service-account.name": account}
    metadata = {"name": "kept", "namespace": "default", "annotations": annotations}
    return {"metadata": metadata, "type": "kubernetes.io/service-account-token"}


async def status_with(rig: Rig, token: str) -> int:
    return (await rig.send("POST", WHO, {}, Authorization=f"Bearer {token}"))[0]


async def filled(rig: Rig) -> dict[str, str]:
    await rig.client.create(SECRET, wish())
    await asyncio.sleep(QUIET)
    found = await rig.client.get(SECRET, "kept", "default")
    return {name: base64.b64decode(value).decode() for name, value in found["data"].items()}


def test_it_is_filled_and_its_token_outlives_a_year() -> None:
    async def script(rig: Rig) -> None:
        data = await filled(rig)
        assert (data["namespace"], data["ca.crt"]) == ("default", "CA")
        assert await status_with(rig, data["token"]) == 201
        claims = claims_of(data["token"])
        assert claims["exp"] - claims["iat"] > 366 * 86400

    with_builtins(script)


def test_the_token_ends_with_the_secret() -> None:
    async def script(rig: Rig) -> None:
        token = (await filled(rig))["token"]
        await rig.client.delete(SECRET, "kept", "default")
        assert await status_with(rig, token) == 401

    with_builtins(script)


def test_the_secret_goes_with_the_account_though_another_takes_its_name() -> None:
    async def script(rig: Rig) -> None:
        await filled(rig)
        await rig.client.delete(SERVICE_ACCOUNT, "default", "default")
        await asyncio.sleep(QUIET)
        assert await rig.client.find(SERVICE_ACCOUNT, "default", "default") is not None
        assert await rig.client.find(SECRET, "kept", "default") is None

    with_builtins(script)


def test_a_secret_of_nobody_is_not_kept() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SECRET, wish("nobody"))
        await asyncio.sleep(QUIET)
        assert await rig.client.find(SECRET, "kept", "default") is None

    with_builtins(script)
