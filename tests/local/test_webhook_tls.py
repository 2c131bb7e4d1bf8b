"""The webhook's certificate is kept as long as it is good, and replaced so that nobody is refused meanwhile."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

import pytest

from hekla.api.kinds import Obj
from hekla.clock import SystemClock
from hekla.local.webhook_tls import WebhookTls, webhook_tls
from tests.local.test_credentials import is_accepted

NAMES = ["hekla-webhook.volcano-system.svc"]


class Later(SystemClock):
    def __init__(self, days: int) -> None:
        self._days = days

    def now(self) -> datetime.datetime:
        return super().now() + datetime.timedelta(days=self._days)


def secret(tls: WebhookTls) -> Obj:
    return {"data": {name: base64.b64encode(text.encode()).decode() for name, text in tls.to_secret_data().items()}}


def test_what_is_there_is_kept_until_shortly_before_its_end() -> None:
    first = webhook_tls(None, NAMES, clock=SystemClock())
    assert webhook_tls(secret(first), NAMES, clock=Later(330)) == first
    assert webhook_tls(secret(first), NAMES, clock=Later(340)).certificate != first.certificate


def test_another_name_needs_another_certificate() -> None:
    first = webhook_tls(None, NAMES, clock=SystemClock())
    assert webhook_tls(secret(first), [*NAMES, "other"], clock=SystemClock()).certificate != first.certificate


def test_after_a_change_the_old_certificate_is_believed_beside_the_new_one(tmp_path: Path) -> None:
    old = webhook_tls(None, NAMES, clock=SystemClock())
    before = webhook_tls(secret(old), [*NAMES, "another"], clock=SystemClock())
    new = webhook_tls(secret(before), [*NAMES, "other"], clock=SystemClock())
    authority = tmp_path / "ca.crt"
    authority.write_bytes(new.authority)
    assert new.authority.count(b"BEGIN CERTIFICATE") == 2
    for number, each in enumerate((before, new)):
        certificate, key = tmp_path / f"{number}.crt", tmp_path / f"{number}.key"
        certificate.write_bytes(each.certificate)
        key.write_bytes(each.key)
        assert is_accepted(authority, certificate, key, NAMES[0])


@pytest.mark.parametrize(
    "data",
    [{}, {"ca.crt": "?", "tls.crt": "?", "tls.key": "?"}, dict.fromkeys(("ca.crt", "tls.crt", "tls.key"), "YQ==")],
)
def test_a_secret_of_something_else_is_replaced(data: dict[str, str]) -> None:
    made = webhook_tls({"data": data}, NAMES, clock=SystemClock())
    assert made.authority.count(b"BEGIN CERTIFICATE") == 1
