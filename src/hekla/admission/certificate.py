"""The webhook's serving certificate, as its files say now: whoever renews them need not start us anew."""

from __future__ import annotations

import ssl
from pathlib import Path

from hekla.errors import UsageError
from hekla.file_stamp import Stamp, stamp_of
from hekla.log import get_logger

log = get_logger("webhook")


class ServingCertificate:
    """A TLS context for servers. While its files do not fit each other, or are gone, the last pair that did stays."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """UsageError when there is nothing to begin with."""
        self._files = (certificate, key)
        self._read_at = self._stamps()
        _try(*self._files)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(*self._files)

    def refresh(self) -> None:
        """Take in files that have changed. Connections that are open keep what they have."""
        try:
            stamps = self._stamps()
            if stamps == self._read_at:
                return
            self._read_at = stamps
            # In the context itself, half of a pair would stay.
            _try(*self._files)
            self.context.load_cert_chain(*self._files)
            log.info("serving certificate read again", certificate=self._files[0])
        except (OSError, UsageError) as error:
            log.error("serving certificate kept as it was", error=error)

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(map(stamp_of, self._files))


def read_authority(path: Path) -> bytes:
    """PEM of whom an API server shall believe. It would take a file with no certificate in it, and then believe nobody:
    UsageError."""
    authority = path.read_bytes()
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise UsageError(f"{path}: no certificate in PEM") from None
    return authority


def _try(certificate: Path, key: Path) -> None:
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password=_no_password)
    except OSError as error:
        reason = error.strerror
        if isinstance(error, ssl.SSLError):
            mismatch = error.reason == "KEY_VALUES_MISMATCH"
            reason = "the key is of another certificate" if mismatch else "not a certificate and a key in PEM"
        raise UsageError(f"cannot serve with certificate {certificate} and key {key}: {reason}") from None


def _no_password() -> str:
    """Nobody is asked for one: an encrypted key is of no use to a server."""
    return ""
