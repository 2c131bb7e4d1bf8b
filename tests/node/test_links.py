from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.node.rig import as_account, environment

# In a network of its own, so that nothing of the machine is touched; a user's is as good as root's.
_IN_A_NETWORK = """
import os, socket
from pathlib import Path
from hekla.node import syscalls as sys_
from hekla.node.links import Links

sys_.unshare(sys_.CLONE_NEWUSER | sys_.CLONE_NEWNET if os.geteuid() else sys_.CLONE_NEWNET)

alive = []

def another_network():
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        sys_.unshare(sys_.CLONE_NEWNET)
        theirs.send(b"1")
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    ours.recv(1)
    alive.append(ours)
    return pid

def interfaces():
    return [name for _, name in socket.if_nameindex()]

links = Links()
"""


def inside_a_network(account: str, program: str) -> list[str]:
    command = [*as_account(account), "-c", _IN_A_NETWORK + program]
    done = subprocess.run(
        command, env=environment(Path("/")), cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(params=["root", "user"])
def account(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_bridge_has_its_addresses_and_having_one_already_is_no_error(account: str) -> None:
    said = inside_a_network(
        account,
        """
links.add_bridge("b", "02:68:65:6b:6c:61")
for _ in range(2):
    links.add_address("b", "10.1.0.1", 16)
links.add_address("b", "10.2.0.1", 32)
links.bring_up("b")
print(sorted(links.addresses()))
print(Path("/proc/net/route").read_text())
""",
    )
    assert said[0] == "['10.1.0.1', '10.2.0.1']"
    assert any(line.split()[:3] == ["b", "0000010A", "00000000"] for line in said[1:])


def test_a_cable_leads_into_another_network_and_goes_with_either_end(account: str) -> None:
    said = inside_a_network(
        account,
        """
there = another_network()
links.add_bridge("b", "02:68:65:6b:6c:61")
links.add_cable("c", "eth0", there)
links.plug_in("c", "b")
print(interfaces(), "eth0" in Path(f"/proc/{there}/net/dev").read_text())
links.delete("c")
links.delete("c")
print(interfaces(), "eth0" in Path(f"/proc/{there}/net/dev").read_text())
""",
    )
    assert said == ["['lo', 'b', 'c'] True", "['lo', 'b'] False"]


def test_ports_of_the_bridge_do_not_hear_each_other_but_the_bridge_does(account: str) -> None:
    said = inside_a_network(
        account,
        """
links.add_bridge("b", "02:68:65:6b:6c:61")
links.add_address("b", "10.1.0.1", 24)
links.bring_up("b")
namespaces = []
for number in (2, 3):
    there = another_network()
    links.add_cable(f"c{number}", "eth0", there)
    links.plug_in(f"c{number}", "b")
    namespaces.append(os.open(f"/proc/{there}/ns/net", os.O_RDONLY))
here = os.open("/proc/self/ns/net", os.O_RDONLY)
heard = []
for number, namespace in zip((2, 3), namespaces):
    sys_.setns(namespace, sys_.CLONE_NEWNET)
    with Links() as inside:
        inside.add_address("eth0", f"10.1.0.{number}", 24)
        inside.bring_up("eth0")
    heard.append(socket.create_server((f"10.1.0.{number}", 80)))
sys_.setns(here, sys_.CLONE_NEWNET)
for number in (2, 3):
    socket.create_connection((f"10.1.0.{number}", 80), timeout=10).close()
print("heard from the bridge")
sys_.setns(namespaces[0], sys_.CLONE_NEWNET)
try:
    socket.create_connection(("10.1.0.3", 80), timeout=10)
except OSError as error:
    print(error.strerror or error)
""",
    )
    assert said[0] == "heard from the bridge"
    assert said[1] in ("No route to host", "timed out")


def test_routes_lead_through_a_neighbour(account: str) -> None:
    said = inside_a_network(
        account,
        """
links.add_bridge("b", "02:68:65:6b:6c:61")
links.add_address("b", "10.1.0.2", 32)
links.bring_up("b")
links.add_neighbour_route("b", "10.9.0.1")
links.add_default_route("10.9.0.1")
print(Path("/proc/net/route").read_text())
""",
    )
    routes = [line.split()[:3] for line in said[1:] if line]
    assert sorted(routes) == [["b", "00000000", "0100090A"], ["b", "0100090A", "00000000"]]


def test_what_the_kernel_refuses_is_an_error_with_its_number(account: str) -> None:
    said = inside_a_network(
        account,
        """
for attempt in (
    lambda: links.add_bridge("a-name-too-long-for-it", "02:68:65:6b:6c:61"),
    lambda: links.bring_up("nothing"),
    lambda: links.add_default_route("10.0.0.1"),
):
    try:
        attempt()
    except OSError as error:
        print(error.errno, error.strerror)
""",
    )
    assert said == [
        "34 Numerical result out of range",
        "19 there is no interface nothing",
        "101 Network is unreachable",
    ]
