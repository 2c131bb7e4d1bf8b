"""Which of root's powers a container keeps: what common container engines leave it, less what would do harm here.

Without MKNOD, because no device group guards what it could make, and without NET_RAW, because who writes packets by
hand can write a neighbour's address on them and so walk past a NetworkPolicy. (`ping` needs neither: see `switch.py`.)
"""

from __future__ import annotations

from hekla.api.kinds import Obj

_DEFAULT = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
    "NET_BIND_SERVICE": 10, "SYS_CHROOT": 18, "AUDIT_WRITE": 29, "SETFCAP": 31,
}  # fmt: skip


def kept_capabilities(container: Obj) -> list[int]:
    """By the kernel's numbers. A container may give up any of them; it gets no others."""
    wishes = _wishes(container)
    dropped = _names(wishes.get("drop"))
    added = _names(wishes.get("add"))
    kept = set() if "ALL" in dropped else set(_DEFAULT) - dropped
    kept |= set(_DEFAULT) if "ALL" in added else added & set(_DEFAULT)
    return sorted(_DEFAULT[name] for name in kept)


def refused_capabilities(container: Obj) -> list[str]:
    """Those it asks for and does not get."""
    return sorted(_names(_wishes(container).get("add")) - set(_DEFAULT))


def _wishes(container: Obj) -> Obj:
    found: Obj = (container.get("securityContext") or {}).get("capabilities") or {}
    return found


def _names(written: list[str] | None) -> set[str]:
    return {str(each).upper().removeprefix("CAP_") for each in written or ()}
