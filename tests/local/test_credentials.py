from __future__ import annotations

import os
import random
import ssl
import stat
from pathlib import Path

import pytest

from hekla.clock import SystemClock
from hekla.errors import UsageError
from hekla.local.credentials import ensure_credentials
from hekla.local.layout import Layout


def test_everything_secret_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        ensure_credentials(tmp_path, clock=SystemClock(), rng=random.SystemRandom())
    finally:
        os.umask(previous)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes
    assert set(modes.values()) == {0o600}


def test_credentials_are_made_once_and_kept(tmp_path: Path) -> None:
    first = ensure_credentials(tmp_path, clock=SystemClock(), rng=random.SystemRandom())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert ensure_credentials(tmp_path, clock=SystemClock(), rng=random.SystemRandom()) == first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(first.token.read_text().strip()) == 64


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "kubernetes.default.svc", "10.96.0.1"])
def test_the_servers_certificate_is_accepted_by_who_trusts_the_authority(tmp_path: Path, name: str) -> None:
    made = ensure_credentials(tmp_path, clock=SystemClock(), rng=random.SystemRandom())
    assert is_accepted(made.ca, made.server.certificate, made.server.key, name)


def is_accepted(authority: Path, certificate: Path, key: Path, name: str) -> bool:
    """Whether one who trusts the authority lets the certificate stand for a name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(authority))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (ours, theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return bool(ours.getpeercert())


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    pki = tmp_path / "pki"
    pki.mkdir()
    (pki / f".token.{os.getpid()}").symlink_to(victim)
    ensure_credentials(pki, clock=SystemClock(), rng=random.SystemRandom())
    assert victim.read_text() == "precious"


def test_a_data_dir_open_to_others_is_closed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir(mode=0o777)
    root.chmod(0o777)
    Layout(root).prepare()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_file_in_place_of_the_data_dir_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(UsageError, match="--data-dir"):
        Layout(tmp_path / "data").prepare()


def test_a_long_data_dir_still_gets_a_socket_short_enough(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ("x" * 120))
    assert len(os.fsencode(layout.socket)) < 108
