"""Secrets of type `kubernetes.io/service-account-token`: filled with a lasting token, gone with their account.

The older way to a token, which charts and scripts still use. The token is bound to the Secret: deleting it ends both.
"""

from __future__ import annotations

import asyncio
import base64
import random

import msgspec

from hekla.api.core import ACCOUNT_NAME_ANNOTATION, ACCOUNT_TOKEN_SECRET, ACCOUNT_UID_ANNOTATION
from hekla.api.kinds import SECRET, SERVICE_ACCOUNT, Obj
from hekla.api.meta import Key, annotations_of, is_deleting, key_of, name_of, namespace_of, uid_of
from hekla.client.informer import Informer, Update
from hekla.client.rest import Client
from hekla.client.workqueue import WorkQueue
from hekla.errors import Conflict, NotFound
from hekla.local.builtins.working import work
from hekla.log import get_logger

log = get_logger("account secrets")

_BY_ACCOUNT = "account"
# The longest there is: more than a hundred years.
_LASTING_SECONDS = 1 << 32


class AccountSecretController:
    def __init__(self, client: Client, root_ca: str, *, rng: random.Random) -> None:
        self._client = client
        self._root_ca = root_ca
        self._secrets = Informer(
            client, SECRET, field_selector=f"type={ACCOUNT_TOKEN_SECRET}", indexers={_BY_ACCOUNT: _account_key}, rng=rng
        )
        self._accounts = Informer(client, SERVICE_ACCOUNT, rng=rng)
        self._queue: WorkQueue[Key] = WorkQueue()

    async def run(self) -> None:
        self._secrets.subscribe(lambda update: self._queue.add(key_of(update.obj)))
        self._accounts.subscribe(self._observe_account)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._secrets.run())
                group.create_task(self._accounts.run())
                await self._secrets.synced()
                await self._accounts.synced()
                group.create_task(work(self._queue, self._reconcile, log))
        finally:
            self._queue.close()

    def _observe_account(self, update: Update) -> None:
        for secret in self._secrets.by_index(_BY_ACCOUNT, str(key_of(update.obj))):
            self._queue.add(key_of(secret))

    async def _reconcile(self, key: Key) -> None:
        secret = self._secrets.get(key.name, key.namespace)
        if secret is None or is_deleting(secret):
            return
        notes = annotations_of(secret)
        # Asked directly: no Secret goes because a watch was late.
        account = await self._client.find(SERVICE_ACCOUNT, notes.get(ACCOUNT_NAME_ANNOTATION, ""), key.namespace)
        if account is None or notes.get(ACCOUNT_UID_ANNOTATION, uid_of(account)) != uid_of(account):
            await self._remove(secret)
        elif not (secret.get("data") or {}).get("token"):
            await self._fill(secret, account)

    async def _fill(self, secret: Obj, account: Obj) -> None:
        reference = {"kind": SECRET.kind, "apiVersion": "v1", "name": name_of(secret), "uid": uid_of(secret)}
        spec = {"expirationSeconds": _LASTING_SECONDS, "boundObjectRef": reference}
        path = SERVICE_ACCOUNT.path(namespace_of(account), name_of(account), "token")
        answer = await self._client.raw("POST", path, body=msgspec.json.encode({"spec": spec}))
        token = msgspec.json.decode(answer.body)["status"]["token"]
        data = {"token": token, "namespace": namespace_of(secret), "ca.crt": self._root_ca}
        patch = {
            "metadata": {"uid": uid_of(secret), "annotations": {ACCOUNT_UID_ANNOTATION: uid_of(account)}},
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
        }
        await self._client.patch(SECRET, name_of(secret), patch, namespace_of(secret))

    async def _remove(self, secret: Obj) -> None:
        try:
            await self._client.delete(SECRET, name_of(secret), namespace_of(secret), uid=uid_of(secret))
        except (NotFound, Conflict):
            return


def _account_key(secret: Obj) -> list[str]:
    return [str(Key(namespace_of(secret), annotations_of(secret).get(ACCOUNT_NAME_ANNOTATION, "")))]
