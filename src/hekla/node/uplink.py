"""The way out of the pods' network: to what the machine itself can reach.

A process beside the switch, outside its namespaces, keeps it open for as long as the switch lives:

- `relay`: slirp4netns or pasta carries each connection over with an ordinary socket of its own. Nothing of the machine
  is changed, and no rights are needed.
- `nat`: as root, a veth pair between machine and switch, and address translation. Faster, but it changes the machine:
  one interface, one nft table, and forwarding where that was off. All of it is undone when the switch ends, by this
  process or, should that have been killed, by the sweep.

Either way pods go out under one address, nobody comes in, and neither the machine's own loopback addresses nor
link-local ones (a cloud's metadata) can be reached.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import shutil
import signal
import subprocess
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from hekla.node import records
from hekla.node import syscalls as sys_
from hekla.node.links import Links

Outgoing = Literal["auto", "nat", "none"]
Way = Literal["slirp4netns", "pasta", "nat", ""]

LINK = "uplink"  # the switch's end
TABLE = "hekla-uplink"
RECORD = "uplink.json"
LOCK = "uplink.lock"
PROGRAMS = "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin:/usr/local/bin"
# A range for documentation only, so nobody's network: the machine's end, and ours.
_NETWORK, _THERE, _HERE = "192.0.2.0/24", "192.0.2.2", "192.0.2.100"
_TUN = Path("/dev/net/tun")
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# Kept for whoever leaves last: several clusters may have asked for forwarding.
_FORWARDING_BEFORE = Path("/run/hekla-ip-forward")
_RETRY_SECONDS = 1.0


def choose_way(wanted: Outgoing) -> Way:
    """What this machine offers; nothing where it is not wanted or something is missing."""
    if wanted == "none" or missing(wanted):
        return ""
    if wanted == "nat":
        return "nat"
    return "slirp4netns" if _find("slirp4netns") else "pasta"


def missing(wanted: Outgoing) -> str:
    """What keeps pods from getting out; empty when nothing does, or nobody wants them to."""
    if wanted == "none":
        return ""
    if not _find("nft"):
        return "the program nft (Debian's package nftables)"
    if wanted == "nat":
        return "" if os.geteuid() == 0 else "to be root"
    # pasta gives up root's rights before it has entered our namespace, so it serves ordinary users only.
    if not _find("slirp4netns") and (os.geteuid() == 0 or not _find("pasta")):
        return "the program slirp4netns (Debian's package of that name)"
    return "" if os.access(_TUN, os.R_OK | os.W_OK) else f"{_TUN}, which is closed to this user"


def rules() -> str:
    """For the switch's own namespace: everybody leaves under its address, and not for where nobody should go."""
    return f"""
        table ip {TABLE}
        delete table ip {TABLE}
        table ip {TABLE} {{
          chain out {{ type nat hook postrouting priority srcnat; oifname "{LINK}" masquerade; }}
          chain forward {{
            type filter hook forward priority filter;
            iifname "{LINK}" ct state new drop
            oifname "{LINK}" ip daddr {{ 169.254.0.0/16, 127.0.0.0/8, {_NETWORK} }} reject
          }}
        }}
    """


@dataclass(frozen=True)
class Keeper:
    """The process that keeps the way open. It begins when told to and ends with whoever forked it."""

    process: records.ProcessId
    _telling: int

    def begin(self) -> None:
        os.write(self._telling, b"1")

    def dismiss(self) -> None:
        os.close(self._telling)


def fork_keeper(way: Way, data_dir: Path) -> Keeper:
    """Call before entering any namespace: the keeper stays outside."""
    switch = os.getpid()
    waiting, telling = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child:
        os.close(waiting)
        return Keeper(records.process_id(child), telling)
    try:
        waiting = _close_all_but(waiting)
        sys_.set_process_name("hekla-uplink")
        # Nothing to read means that nobody is there any more.
        if os.read(waiting, 1):
            if way == "nat":
                _keep_nat(switch, data_dir, waiting)
            _keep_relay(way, switch, waiting)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def undo(data_dir: Path) -> None:
    """Put back what `nat` changed, if it has; as often as asked."""
    record = records.read(str(data_dir / RECORD))
    if record is None:
        return
    if record["boot"] == records.process_id(os.getpid())["boot"]:
        _undo_nat(record["name"])
    (data_dir / RECORD).unlink(missing_ok=True)


def _keep_relay(way: Way, switch: int, waiting: int) -> NoReturn:
    """Have the relay there until the switch is gone."""
    user_namespace = os.geteuid() != 0
    while True:
        command = _slirp4netns(switch, user_namespace) if way == "slirp4netns" else _pasta(switch)
        relay = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None,
            env={"PATH": PROGRAMS},
            cwd="/",
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        ended = os.pidfd_open(relay.pid)
        if _first_ready(waiting, ended) == waiting:
            relay.kill()
            relay.wait()
            os._exit(0)
        os.close(ended)
        relay.wait()
        time.sleep(_RETRY_SECONDS)  # it failed: not at once again


def _slirp4netns(switch: int, user_namespace: bool) -> list[str]:
    where = [f"--userns-path=/proc/{switch}/ns/user"] if user_namespace else []
    safe = ["--disable-host-loopback", "--disable-dns", "--enable-seccomp"]
    if not user_namespace:
        # Root's rights are the ones worth giving up.
        safe.append("--enable-sandbox")
    return ["slirp4netns", "--configure", "--mtu=65520", f"--cidr={_NETWORK}", *safe, *where,
            "--netns-type=path", f"/proc/{switch}/ns/net", LINK]  # fmt: skip


def _pasta(switch: int) -> list[str]:
    closed = [word for flag in ("-t", "-u", "-T", "-U") for word in (flag, "none")]
    where = ["--userns", f"/proc/{switch}/ns/user", "--netns", f"/proc/{switch}/ns/net"]
    quiet = ["--no-map-gw", "--no-dhcp", "--no-dhcpv6", "--no-ra", "--no-ndp"]
    return ["pasta", "--foreground", "--quiet", "--ipv4-only", "--config-net", "-I", LINK, "-a", _HERE, "-n", "24",
            "-g", _THERE, *closed, *quiet, *where]  # fmt: skip


def link_name(data_dir: Path) -> str:
    """What the machine's end of a cluster's way out is called."""
    return "hk" + hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:10]


def _keep_nat(switch: int, data_dir: Path, waiting: int) -> NoReturn:
    name = link_name(data_dir)
    # Held for life: the keeper of a switch that was killed puts everything back before we begin, not after.
    turn = os.open(data_dir / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(turn, fcntl.LOCK_EX)
    # On record before anything is changed.
    records.write(str(data_dir / RECORD), {"name": name, "boot": records.process_id(os.getpid())["boot"]})
    try:
        _undo_nat(name)
        _make_nat(switch, name)
        os.read(waiting, 1)
    finally:
        undo(data_dir)
    os._exit(0)


def _make_nat(switch: int, name: str) -> None:
    with Links() as links:
        there, here = _free_pair(links.addresses())
        links.add_cable(name, LINK, switch)
        links.add_address(name, there, 30)
        links.bring_up(name)
    child = os.fork()
    if child == 0:
        try:
            _configure_here(switch, there, here)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    forwarding = _FORWARDING.read_text().strip()
    if forwarding == "0":
        _FORWARDING_BEFORE.write_text(forwarding)
    apply_rules(_machine_rules(name, here, alone=_FORWARDING_BEFORE.exists()))
    _FORWARDING.write_text("1")


def _machine_rules(name: str, here: str, *, alone: bool) -> str:
    """For the machine. `alone`: it forwards nothing else, and is not to begin with it because of us."""
    others = 'iifname != "hk*" oifname != "hk*" drop' if alone else ""
    return f"""
        table ip {name} {{
          chain out {{ type nat hook postrouting priority srcnat; ip saddr {here} oifname != "{name}" masquerade; }}
          chain forward {{
            type filter hook forward priority filter;
            oifname "{name}" ct state != {{ established, related }} drop
            {others}
          }}
        }}
    """


def _configure_here(switch: int, there: str, here: str) -> None:
    namespace = os.open(f"/proc/{switch}/ns/net", os.O_RDONLY)
    sys_.setns(namespace, sys_.CLONE_NEWNET)
    with Links() as links:
        links.add_address(LINK, here, 30)
        links.bring_up(LINK)
        links.add_default_route(there)


def _undo_nat(name: str) -> None:
    with Links() as links:
        links.delete(name)
    apply_rules(f"table ip {name}\ndelete table ip {name}\n")
    listed = subprocess.run(["nft", "list", "tables"], env={"PATH": PROGRAMS}, capture_output=True, text=True).stdout
    last = not any(line.startswith("table ip hk") for line in listed.splitlines())
    if last and _FORWARDING_BEFORE.exists():
        _FORWARDING.write_text(_FORWARDING_BEFORE.read_text())
        _FORWARDING_BEFORE.unlink(missing_ok=True)


def _free_pair(taken: set[str]) -> tuple[str, str]:
    """Two addresses of a range of four that no other cluster of this machine has."""
    for first in range(0, 256, 4):
        there, here = (f"192.0.2.{first + offset}" for offset in (1, 2))
        if there not in taken:
            return there, here
    raise OSError(0, f"no free addresses in {_NETWORK}")


def apply_rules(text: str) -> None:
    done = subprocess.run(["nft", "-f", "-"], env={"PATH": PROGRAMS}, input=text.encode(), capture_output=True)
    if done.returncode:
        raise OSError(0, f"nft: {done.stderr.decode(errors='replace').strip()[:500]}")


def _close_all_but(descriptor: int) -> int:
    """Nothing of the switch's may stay open with us, least of all its lock. Standard error goes to its log."""
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    os.dup2(descriptor, 3, inheritable=False)
    os.closerange(4, 4096)
    return 3


def _first_ready(*descriptors: int) -> int:
    return int(select.select(descriptors, [], [])[0][0])


def _end_with_parent() -> None:
    sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)


def _find(program: str) -> str | None:
    return shutil.which(program, path=PROGRAMS)
