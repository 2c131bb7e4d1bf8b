"""Tokens of service accounts: what they say, who issued them, and when they stop being good."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from hekla.api.kinds import NODE, POD, SERVICE_ACCOUNT, Obj
from hekla.apiserver.access.signing import Signer
from tests.apiserver.rig import Rig, pod, with_server

PATH = "/api/v1/namespaces/default/serviceaccounts/default/token"
POD_TYPE = {"kind": "Pod", "apiVersion": "v1"}
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def ask_token(rig: Rig, path: str = PATH, **spec: Any) -> tuple[int, Any]:
    status, answer, _ = await rig.send("POST", path, {"spec": spec})
    return status, answer


async def issue(rig: Rig, **spec: Any) -> str:
    status, answer = await ask_token(rig, **spec)
    assert status == 201, answer
    return str(answer["status"]["token"])


async def is_good(rig: Rig, token: str) -> bool:
    status, _, _ = await rig.send("POST", WHO, {}, Authorization=f"Bearer {token}")
    assert status in (201, 401)
    return status == 201


def claims_of(token: str) -> Obj:
    body = token.split(".")[1]
    claims: Obj = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def reference(obj: Obj, kind: str = "Pod") -> Obj:
    return {"kind": kind, "apiVersion": "v1", "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def test_a_token_says_whose_it_is_and_who_its_holder_is_can_be_asked() -> None:
    async def script(rig: Rig) -> None:
        account = await rig.client.get(SERVICE_ACCOUNT, "default", "default")
        status, answer = await ask_token(rig, expirationSeconds=1200)
        assert status == 201
        assert answer["metadata"]["name"] == "default"
        assert answer["spec"]["expirationSeconds"] == 1200
        claims = claims_of(answer["status"]["token"])
        assert claims["sub"] == "system:serviceaccount:default:default"
        assert claims["aud"] == ["https://kubernetes.default.svc"]
        assert claims["exp"] - claims["iat"] == 1200
        assert claims["kubernetes.io"]["serviceaccount"]["uid"] == account["metadata"]["uid"]
        headers = {"Authorization": f"Bearer {answer['status']['token']}"}
        _, review, _ = await rig.send("POST", WHO, {}, **headers)
        assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"

    with_server(script)


def test_a_token_ends_when_its_time_is_over() -> None:
    async def script(rig: Rig) -> None:
        token = await issue(rig, expirationSeconds=600)
        await asyncio.sleep(598)
        assert await is_good(rig, token)
        await asyncio.sleep(3)
        assert not await is_good(rig, token)

    with_server(script)


def test_a_token_ends_with_the_pod_it_is_bound_to_even_if_another_takes_its_name() -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(NODE, {"metadata": {"name": "n1"}})
        made = await rig.client.create(POD, pod())
        await rig.client.bind("default", "p", "n1", uid=made["metadata"]["uid"])
        token = await issue(rig, boundObjectRef=reference(made))
        private = claims_of(token)["kubernetes.io"]
        assert (private["pod"]["uid"], private["node"]["name"]) == (made["metadata"]["uid"], "n1")
        assert await is_good(rig, token)
        await rig.client.delete(POD, "p", "default", grace_seconds=0)
        assert not await is_good(rig, token)
        await rig.client.create(POD, pod())
        assert not await is_good(rig, token)

    with_server(script)


def test_a_token_ends_with_the_pod_it_is_bound_to_even_if_the_next_names_it_as_its_owner() -> None:
    async def script(rig: Rig) -> None:
        made = await rig.client.create(POD, pod())
        token = await issue(rig, boundObjectRef=reference(made))
        await rig.client.delete(POD, "p", "default", grace_seconds=0)
        heir = pod()
        heir["metadata"]["ownerReferences"] = [reference(made)]
        await rig.client.create(POD, heir)
        assert not await is_good(rig, token)

    with_server(script)


def test_a_token_ends_with_its_account() -> None:
    async def script(rig: Rig) -> None:
        token = await issue(rig)
        assert await is_good(rig, token)
        await rig.client.delete(SERVICE_ACCOUNT, "default", "default")
        await rig.client.create(SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": "default"}})
        assert not await is_good(rig, token)

    with_server(script)


def test_a_token_for_others_is_not_good_here() -> None:
    async def script(rig: Rig) -> None:
        assert not await is_good(rig, await issue(rig, audiences=["vault"]))
        assert await is_good(rig, await issue(rig, audiences=["vault", "https://kubernetes.default.svc"]))

    with_server(script)


def test_no_other_text_is_a_token() -> None:
    async def script(rig: Rig) -> None:
        token = await issue(rig)
        head, body, signature = token.split(".")
        claims = {**claims_of(token), "sub": "system:serviceaccount:kube-system:default"}
        forged = base64.urlsafe_b64encode(msgspec.json.encode(claims)).rstrip(b"=").decode()
        unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
        stranger = Signer.generate().sign(claims_of(token))
        for text in (
            f"{head}.{forged}.{signature}", f"{unsigned}.{body}.", f"{unsigned}.{body}.{signature}", stranger,
            f"{head}.{body}.", f"{head}.{body}.{signature[:-2]}", f"{head}.{body}.{signature}.", head, "", "..", "é",
            f"{head}.{body}.{'A' * 86}",
        ):  # fmt: skip
            assert not await is_good(rig, text), text
        assert await is_good(rig, token)

    with_server(script)


@pytest.mark.parametrize(
    ("spec", "status", "message"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**33}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {**POD_TYPE, "name": "none"}}, 404, 'pods "none" not found'),
        ({"boundObjectRef": {**POD_TYPE, "kind": "ConfigMap", "name": "p"}}, 400, "cannot bind token to object"),
        ({"boundObjectRef": {**POD_TYPE, "name": "p", "uid": "x"}}, 409, "does not match the UID"),
        ({"boundObjectRef": {**POD_TYPE, "name": "q"}}, 400, "different serviceaccount name"),
        ({"boundObjectRef": "p"}, 400, "boundObjectRef of a TokenRequest is a mapping"),
        ({"audiences": 3}, 400, "spec.audiences is a list of texts"),
    ],
)
def test_what_cannot_be_had_is_refused(spec: Obj, status: int, message: str) -> None:
    async def script(rig: Rig) -> None:
        await rig.client.create(SERVICE_ACCOUNT, {"metadata": {"name": "other", "namespace": "default"}})
        await rig.client.create(POD, pod())
        await rig.client.create(POD, pod("q", serviceAccountName="other"))
        code, answer = await ask_token(rig, **spec)
        assert (code, message in answer["message"]) == (status, True), answer

    with_server(script)


@pytest.mark.parametrize("field", ["metadata", "spec"])
def test_a_request_of_the_wrong_shape_is_a_bad_one(field: str) -> None:
    async def script(rig: Rig) -> None:
        code, answer, _ = await rig.send("POST", PATH, {field: "x"})
        assert (code, answer["message"]) == (400, f"{field} of a TokenRequest is a mapping")

    with_server(script)


def test_an_account_that_does_not_exist_has_no_tokens() -> None:
    async def script(rig: Rig) -> None:
        code, answer = await ask_token(rig, PATH.replace("/default/token", "/nobody/token"))
        assert (code, answer["message"]) == (404, 'serviceaccounts "nobody" not found')

    with_server(script)
