"""Signed claims: JSON Web Tokens with ES256, the one form this server issues and accepts.

The algorithm is not taken from the token: what is not ES256 under our own key is not a token of ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

_ALGORITHM = ec.ECDSA(hashes.SHA256())
_HALF = 32

Claims = dict[str, Any]


class Signer:
    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        encoded = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        key_id = _text(hashlib.sha256(encoded).digest())
        self._head = _text(msgspec.json.encode({"alg": "ES256", "kid": key_id}))

    @classmethod
    def generate(cls) -> Signer:
        """A key of its own that nobody else has: its tokens end with the process."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def load(cls, path: Path) -> Signer:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError(f"{path}: not an EC key on P-256")
        return cls(key)

    def sign(self, claims: Claims) -> str:
        signed = f"{self._head}.{_text(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _ALGORITHM))
        return f"{signed}.{_text(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def verify(self, token: str) -> Claims | None:
        """The claims we once signed; None for anything else. Says nothing about whether they still hold."""
        head, _, rest = token.partition(".")
        body, _, signature = rest.partition(".")
        if head != self._head:
            return None
        try:
            halves = _bytes(signature)
            if len(halves) != 2 * _HALF:
                return None
            r, s = int.from_bytes(halves[:_HALF], "big"), int.from_bytes(halves[_HALF:], "big")
            self._public.verify(encode_dss_signature(r, s), f"{head}.{body}".encode(), _ALGORITHM)
            claims: Claims = msgspec.json.decode(_bytes(body))
        except (InvalidSignature, ValueError, binascii.Error, msgspec.DecodeError):
            return None
        return claims


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
