"""A local cluster's certificates and token.

One certificate authority per data dir signs three kinds of certificate: the API server's, the nodes' (for logs), and
the one with which the API server calls the nodes. People authenticate with a 256-bit token; the server
knows only its hash. So do our components, each with a token of its own; service account tokens are signed with a key
of their own. Everything is kept with mode 0600; certificates are made again shortly before they expire.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import hmac
import ipaddress
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hekla.api.core import API_SERVICE_ADDRESS, API_SERVICE_NAMES
from hekla.clock import Clock
from hekla.local.private_files import write_private

_VALID = datetime.timedelta(days=365)
_RENEW_BEFORE = datetime.timedelta(days=30)
_BACKDATE = datetime.timedelta(minutes=5)
_AUTHORITY = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hekla-local-ca")])


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Credentials:
    ca: Path
    server: Pair
    node: Pair
    kubelet_client: Pair
    token: Path
    signing_key: Path
    components: Path

    def component_token(self, component: str) -> str:
        """What one of our own components proves itself with; made from one secret, so it needs no file of its own."""
        secret = bytes.fromhex(self.components.read_text().strip())
        return hmac.new(secret, component.encode(), hashlib.sha256).hexdigest()


def ensure_credentials(directory: Path, *, clock: Clock, rng: random.Random) -> Credentials:
    """The data dir's credentials: those found, or new ones where absent or about to expire.

    Several may ask at once: one makes them, the others wait.
    """
    names = ("ca", "apiserver", "node", "kubelet-client")
    pairs = {name: Pair(directory / f"{name}.crt", directory / f"{name}.key") for name in names}
    credentials = Credentials(
        ca=pairs["ca"].certificate,
        server=pairs["apiserver"],
        node=pairs["node"],
        kubelet_client=pairs["kubelet-client"],
        token=directory / "token",
        signing_key=directory / "service-accounts.key",
        components=directory / "components.key",
    )
    with _turn(directory):
        _make_missing(credentials, pairs, clock, rng)
    return credentials


@contextlib.contextmanager
def _turn(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_missing(credentials: Credentials, pairs: dict[str, Pair], clock: Clock, rng: random.Random) -> None:
    if not all(_is_fresh(pair, clock) for pair in pairs.values()) or not _has_names(pairs["apiserver"]):
        _issue_all(pairs, clock)
    for secret in (credentials.token, credentials.components):
        if not secret.exists():
            write_private(secret, f"{rng.getrandbits(256):064x}\n".encode())
    if not credentials.signing_key.exists():
        write_private(credentials.signing_key, _encoded(ec.generate_private_key(ec.SECP256R1())))


def issue_server_pair(names: Sequence[str], *, clock: Clock) -> tuple[bytes, bytes, bytes]:
    """A certificate authority of its own, and a certificate and key signed by it for a server of these names: PEM."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _authority(ca_key, clock)
    listed = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    certificate = _leaf(names[0], key, ca_key, ExtendedKeyUsageOID.SERVER_AUTH, listed, clock)
    encode = serialization.Encoding.PEM
    return ca.public_bytes(encode), certificate.public_bytes(encode), _encoded(key)


def is_good_for(certificate: bytes, names: Sequence[str], *, clock: Clock) -> bool:
    """Whether a server can go on with this certificate, PEM, under these names."""
    try:
        read = x509.load_pem_x509_certificate(certificate)
        return _lasts(read, clock) and {x509.DNSName(name) for name in names} <= _names_in(read)
    except (ValueError, x509.ExtensionNotFound):
        return False


def first_certificate(bundle: bytes) -> bytes:
    """Of PEM certificates the first; nothing where there is none."""
    try:
        return x509.load_pem_x509_certificates(bundle)[0].public_bytes(serialization.Encoding.PEM)
    except ValueError:
        return b""


def _is_fresh(pair: Pair, clock: Clock) -> bool:
    if not (pair.certificate.exists() and pair.key.exists()):
        return False
    return _lasts(x509.load_pem_x509_certificate(pair.certificate.read_bytes()), clock)


def _lasts(certificate: x509.Certificate, clock: Clock) -> bool:
    return certificate.not_valid_after_utc - clock.now() > _RENEW_BEFORE


def _has_names(pair: Pair) -> bool:
    """Whether a server's certificate has every name it is reached by; one of an older release has not."""
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    return set(_names(API_SERVICE_NAMES, API_SERVICE_ADDRESS)) <= _names_in(certificate)


def _names_in(certificate: x509.Certificate) -> set[x509.GeneralName]:
    return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def _issue_all(pairs: dict[str, Pair], clock: Clock) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    _write(pairs["ca"], _authority(ca_key, clock), ca_key)
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    for name, usage in (("apiserver", server), ("node", server), ("kubelet-client", client)):
        key = ec.generate_private_key(ec.SECP256R1())
        names = _names(API_SERVICE_NAMES, API_SERVICE_ADDRESS) if name == "apiserver" else _names()
        leaf = _leaf(f"hekla-{name}", key, ca_key, usage, x509.SubjectAlternativeName(names), clock)
        _write(pairs[name], leaf, key)


def _authority(key: ec.EllipticCurvePrivateKey, clock: Clock) -> x509.Certificate:
    return (
        _builder(_AUTHORITY, _AUTHORITY, key.public_key(), clock)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier,
    names: x509.SubjectAlternativeName,
    clock: Clock,
) -> x509.Certificate:
    return (
        _builder(_name(name), _AUTHORITY, key.public_key(), clock)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, clock: Clock
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(clock.now() - _BACKDATE)
        .not_valid_after(clock.now() + _VALID)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _names(others: Sequence[str] = (), address: str = "") -> list[x509.GeneralName]:
    """Loopback, and more names and an address."""
    addresses = [each for each in ("127.0.0.1", "::1", address) if each]
    return [
        *(x509.DNSName(name) for name in ("localhost", *others)),
        *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses),
    ]


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_private(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    write_private(pair.key, _encoded(key))


def _encoded(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
