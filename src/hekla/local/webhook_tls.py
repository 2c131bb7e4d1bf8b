"""The webhook's certificate on a real cluster: kept in a Secret, so that installing again changes nothing.

Near its end it is replaced, with the authority that signed it. The API server then trusts the old authority beside the
new one: pods that have not been replaced yet are believed until they are.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from hekla.api.kinds import Obj
from hekla.clock import Clock
from hekla.local.credentials import first_certificate, is_good_for, issue_server_pair

_FIELDS = {"authority": "ca.crt", "certificate": "tls.crt", "key": "tls.key"}


@dataclass(frozen=True, slots=True)
class WebhookTls:
    """The serving certificate and key, and who may have signed it: PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def to_secret_data(self) -> dict[str, str]:
        return {entry: getattr(self, field).decode() for field, entry in _FIELDS.items()}


def webhook_tls(secret: Obj | None, names: list[str], *, clock: Clock) -> WebhookTls:
    """What the Secret holds, while it is good for `names` and for a while; else new."""
    present = _read(secret)
    if present is not None and is_good_for(present.certificate, names, clock=clock):
        return present
    authority, certificate, key = issue_server_pair(names, clock=clock)
    return WebhookTls(authority + (first_certificate(present.authority) if present else b""), certificate, key)


def _read(secret: Obj | None) -> WebhookTls | None:
    data = (secret or {}).get("data") or {}
    try:
        return WebhookTls(**{field: base64.b64decode(data[entry], validate=True) for field, entry in _FIELDS.items()})
    except (KeyError, binascii.Error):
        return None
