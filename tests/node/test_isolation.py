"""Machines that keep ordinary users from namespaces, in whole or in part."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hekla.node.isolation import closed_switch
from tests.node.rig import ACCOUNTS, as_account, environment

# Security modules may give a namespace and then none of the rights in it: here a filter forbids mount.
_NO_MOUNT = """
import ctypes, os, struct
from hekla.errors import UsageError
from hekla.node import syscalls
from hekla.node.isolation import use_namespaces
number = {"x86_64": 165, "aarch64": 40}[os.uname().machine]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x0005000D), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *step) for step in steps)
held = ctypes.create_string_buffer(code, len(code))
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
syscalls.prctl(38, 1)
chain = Filter(len(steps), ctypes.addressof(held))
syscalls.prctl(22, 2, ctypes.addressof(chain))
print(use_namespaces("auto"))
try:
    use_namespaces("namespaces")
except UsageError as error:
    print(error)
"""


@pytest.mark.parametrize("account", ACCOUNTS)
def test_namespaces_without_rights_are_none(account: str) -> None:
    command = [*as_account(account), "-c", _NO_MOUNT]
    said = subprocess.check_output(command, env=environment(Path("/")), cwd="/", text=True).splitlines()
    assert said[0] == "False"
    assert said[1].startswith("this machine forbids namespaces")
    assert said[1].endswith(": Permission denied")


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ],
)
def test_the_setting_that_is_to_blame_is_named_with_its_remedy(
    name: str, value: str, remedy: str, tmp_path: Path
) -> None:
    for other in ("kernel/apparmor_restrict_unprivileged_userns", "kernel/unprivileged_userns_clone"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text("0\n" if "restrict" in other else "1\n")
    assert closed_switch(tmp_path) == ""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f"{value}\n")
    assert closed_switch(tmp_path) == f"sudo sysctl {remedy}"
