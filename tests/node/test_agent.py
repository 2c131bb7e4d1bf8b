"""Pods on a real node: real processes, a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from hekla.api.kinds import CONFIG_MAP, EVENT, POD, SERVICE
from hekla.node import records
from hekla.node.directory import PodDirectory
from hekla.node.hooks.cgroups import recorded_cgroups
from hekla.node.uplink import link_name
from tests.eventually import soon, until
from tests.node.rig import ACCOUNTS, Rig, exit_code, phase, rig, state, sweep_as
from tests.node.test_kept_logs import ended_pod, in_the_way

Story = Callable[[Rig], Coroutine[None, None, None]]
Tell = Callable[[Story], None]

pytestmark = pytest.mark.root
each_account = pytest.mark.parametrize("account", ACCOUNTS)


@pytest.fixture(scope="module", params=ACCOUNTS)
def on_a_shared_node(request: pytest.FixtureRequest) -> Iterator[Tell]:
    """One node for all stories that leave it as they found it."""
    stack = contextlib.AsyncExitStack()

    async def begin() -> Rig:
        node = await stack.enter_async_context(rig(request.param))
        await node.start_agent()
        return node

    with asyncio.Runner() as runner:
        node = runner.run(begin())
        yield lambda story: runner.run(story(node))
        runner.run(stack.aclose())


def on_a_node(account: str, story: Story) -> None:
    async def tell() -> None:
        async with rig(account) as node:
            await node.start_agent()
            await story(node)

    asyncio.run(tell())


def test_a_pod_runs_isolated_and_its_exit_code_and_output_are_kept(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_isolation)


async def _isolation(node: Rig) -> None:
    marker = f"hekla-test-{os.getpid()}"
    script = f"""
        hostname; id -u; echo $$$$; env | grep -c CANARY; ls {node.data_dir} 2>/dev/null | wc -l
        touch /etc/{marker} /usr/{marker} /{marker} && echo written
        ls /proc/[0-9]*/comm | wc -l; ls /proc/self/fd | wc -l
        echo oops >&2; exit 7
    """
    await node.create_pod("alone", script)
    pod = await node.finished("alone")
    assert phase(pod) == "Failed"
    assert exit_code(pod) == 7
    lines = node.log(pod).split()
    assert lines[:6] == ["alone", "0", "1", "0", "0", "written"]
    assert lines[-1] == "oops"
    for folder in ("/etc", "/usr", "/"):
        assert not Path(folder, marker).exists()
    assert pod["status"]["podIP"].startswith("10.")
    assert pod["status"]["qosClass"] == "BestEffort"


def test_three_pods_find_each_other_by_name(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_names)


_PEER = """
import socket, time

def patiently(attempt):
    while True:
        try:
            return attempt()
        except OSError:
            time.sleep(0.02)

with socket.create_server(("", 5000)) as server:
    names = [f"gang-{index}.gang" for index in range(3)]
    found = [patiently(lambda: socket.gethostbyname(name)) for name in names]
    assert found == [socket.gethostbyname(f"{name}.default.svc.cluster.local") for name in names]
    assert socket.gethostbyname(socket.gethostname()) in found
    try:
        raise AssertionError(socket.gethostbyname("nobody.gang"))
    except socket.gaierror:
        pass
    peers = [patiently(lambda: socket.create_connection((address, 5000), timeout=30)) for address in found]
    # Nobody leaves before all have been dialled.
    heard = [server.accept() for _ in found]
    print(len(set(found)), len(heard))
"""


async def _names(node: Rig) -> None:
    await node.create("Service", "gang", spec={"clusterIP": "None", "selector": {"app": "gang"}})
    for index in range(3):
        await node.create_pod(
            f"gang-{index}",
            hostname=f"gang-{index}",
            subdomain="gang",
            labels={"app": "gang"},
            container={"command": ["python3", "-c", _PEER]},
        )
    for index in range(3):
        pod = await node.finished(f"gang-{index}")
        assert phase(pod) == "Succeeded", node.log(pod)
        assert node.log(pod) == "3 3\n"


@each_account
def test_an_agent_killed_at_work_is_replaced_and_the_pod_runs_once_with_its_own_exit_code(account: str) -> None:
    on_a_node(account, _kill_and_take_back)


async def _kill_and_take_back(node: Rig) -> None:
    await node.create_pod(
        "during", "echo once; until [ -e /dev/shm/never ]; do sleep 0.1; done", terminationGracePeriodSeconds=0
    )
    await node.create_pod(
        "between",
        "echo once; until [ -e /told/to-end ]; do sleep 0.05; done; exit 9",
        volumes=[(told := {"name": "told", "emptyDir": {}})],
        container={"volumeMounts": [{"name": "told", "mountPath": "/told"}]},
    )
    running = await node.running("during")
    await node.running("between")
    await node.kill_agent()
    record = PodDirectory(node.data_dir, running["metadata"]["uid"]).start_record("main", 0)
    assert record is not None
    assert records.is_alive(record["container"])
    # The one ends while nobody looks.
    ends = PodDirectory(node.data_dir, node.pods.get("between", "default")["metadata"]["uid"])  # type: ignore[index]
    (ends.volume(told) / "to-end").touch()
    await soon(lambda: ends.exit_record("main", 0), what="its end is on record")
    await node.start_agent()
    between = await node.finished("between")
    assert exit_code(between) == 9
    assert node.log(between) == "once\n"
    assert between["status"]["containerStatuses"][0]["restartCount"] == 0
    assert await until(lambda: ends_told(node, "between")) == [
        ("between", "Normal", "Container main ended with exit code 9")
    ]
    # The other is still the same process.
    assert records.is_alive(record["container"])
    await node.client.delete(POD, "during", "default")
    await node.until_gone("during")
    await soon(lambda: not records.is_alive(record["shim"]), what="the shim is gone")


@each_account
def test_a_start_that_outlives_its_agent_keeps_its_files(account: str) -> None:
    on_a_node(account, _late_start)


async def _late_start(node: Rig) -> None:
    await node.create("ConfigMap", "words", data={"word": "fine"})
    await node.create_pod("first", "true")
    await node.finished("first")
    spawner = _spawner_of(node)
    os.kill(spawner, signal.SIGSTOP)
    word = {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "word"}}}
    told = {"name": "told", "emptyDir": {}}
    late = await node.create_pod(
        "late",
        "until [ -e /told/to-end ]; do sleep 0.05; done; touch /etc/a /top /tmp/a && echo $WORD",
        volumes=[told],
        container={"env": [word], "volumeMounts": [{"name": "told", "mountPath": "/told"}]},
    )
    directory = PodDirectory(node.data_dir, late["metadata"]["uid"])
    await soon(directory.kept("main").exists, what="it is about to be started")
    # The agent does one thing at a time: as soon as it is at another pod, the start of this one is on its way.
    other = PodDirectory(node.data_dir, (await node.create_pod("other", "true"))["metadata"]["uid"])
    await soon(other.kept("main").exists, what="another is about to be started")
    await node.kill_agent()
    # The next agent finds no trace of a start, and something missing before it can try one of its own.
    await node.client.delete(CONFIG_MAP, "words", "default")
    await node.start_agent()
    await node.until("late", lambda pod: "CreateContainerConfigError" in str(pod.get("status")))
    os.kill(spawner, signal.SIGCONT)
    await soon(lambda: directory.start_record("main", 0), what="it runs after all")
    await node.create("ConfigMap", "words", data={"word": "another"})
    await node.running("late")
    (directory.volume(told) / "to-end").touch()
    assert node.log(await node.finished("late")) == "fine\n"


def _spawner_of(node: Rig) -> int:
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mine = str(node.data_dir).encode() in (place / "cmdline").read_bytes().split(b"\0")
            if mine and (place / "comm").read_text() == "hekla-spawner\n":
                return int(place.name)
    raise AssertionError("there is no spawner")


def test_what_cannot_start_says_why(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_refusals)


async def _refusals(node: Rig) -> None:
    await node.create_pod("no-program", container={"command": ["no-such-program"], "image": "torch:2"})
    await node.create_pod("no-program-in-a-shell", "no-such-program", container={"image": "torch:2"})
    await node.create_pod("last-words", "printf 'no torchrun' > /dev/termination-log; exit 127")
    await node.create_pod("no-command", container={"command": [], "image": "nginx"})
    await node.create_pod("host-path", volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    reference = {"configMapKeyRef": {"name": "late", "key": "greeting"}}
    await node.create_pod("waits", "echo $GREETING", container={"env": [{"name": "GREETING", "valueFrom": reference}]})
    missing = await node.finished("no-program")
    assert exit_code(missing) == 128
    assert state(missing)["terminated"]["reason"] == "StartError"
    # The image would have had it, people think: they are told that it was not looked into.
    unmapped = "is not mapped: pods run from this machine's own file system"
    assert state(missing)["terminated"]["message"] == (
        f'exec: "no-such-program": executable file not found in $PATH; image "torch:2" {unmapped} (docs/images.md)'
    )
    in_a_shell = state(await node.finished("no-program-in-a-shell"))["terminated"]
    assert (in_a_shell["exitCode"], in_a_shell["message"]) == (127, f'image "torch:2" {unmapped} (docs/images.md)')
    last_words = state(await node.finished("last-words"))["terminated"]
    assert (last_words["exitCode"], last_words["message"]) == (127, "no torchrun")
    assert 'image "nginx" is not mapped' in state(await node.finished("no-command"))["terminated"]["message"]
    message = (await node.finished("host-path"))["status"]["message"]
    assert "hostPath / is not among the paths" in message
    assert message.endswith("start it with --allow-host-path /")
    waiting = await node.until("waits", lambda pod: "CreateContainerConfigError" in str(pod.get("status")))
    assert state(waiting)["waiting"]["message"] == 'configmap "late" not found'
    await node.create("ConfigMap", "late", data={"greeting": "hello"})
    assert node.log(await node.finished("waits")) == "hello\n"


def test_volumes_are_where_the_pod_wants_them(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_volumes)


async def _volumes(node: Rig) -> None:
    await node.create("ConfigMap", "settings", data={"a.txt": "alpha", "b.txt": "beta"})
    downward = {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}
    await node.create_pod(
        "full",
        "cat /etc/volcano/a.txt /root/.ssh/renamed /pod/name; stat -Lc %a /root/.ssh/renamed; cat /shared/from-init;"
        "touch /etc/volcano/new 2>/dev/null || echo sealed",
        volumes=[
            {"name": "all", "configMap": {"name": "settings"}},
            {
                "name": "one",
                "configMap": {"name": "settings", "items": [{"key": "b.txt", "path": "renamed", "mode": 256}]},
            },
            {"name": "self", "downwardAPI": downward},
            {"name": "shared", "emptyDir": {}},
        ],
        initContainers=[
            {
                "name": "first",
                "image": "local",
                "command": ["sh", "-c", "echo init > /shared/from-init"],
                "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
            }
        ],
        container={
            "volumeMounts": [
                {"name": "all", "mountPath": "/etc/volcano"},
                {"name": "one", "mountPath": "/root/.ssh"},
                {"name": "self", "mountPath": "/pod"},
                {"name": "shared", "mountPath": "/shared", "readOnly": True},
            ]
        },
    )
    pod = await node.finished("full")
    assert node.log(pod) == "alphabetafull400\ninit\nsealed\n"
    assert phase(pod) == "Succeeded"


def test_a_container_is_who_and_where_it_asks_to_be(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_identity)


async def _identity(node: Rig) -> None:
    script = (
        "id -u; id -g; pwd; echo $GREETING > /shared/file && cat /shared/file; echo last words > /dev/termination-log"
    )
    await node.create_pod(
        "somebody",
        script,
        securityContext={"runAsUser": 1234, "runAsGroup": 56},
        volumes=[{"name": "shared", "emptyDir": {}}],
        container={
            "workingDir": "/made/up",
            "env": [{"name": "NAME", "value": "you"}, {"name": "GREETING", "value": "hello $(NAME)"}],
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        },
    )
    pod = await node.finished("somebody")
    assert node.log(pod).splitlines() == ["1234", "56", "/made/up", "hello you"]
    assert state(pod)["terminated"]["message"] == "last words\n"


def test_a_folder_beside_the_machines_holds_as_much_as_any_other(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_checkpoints)


async def _checkpoints(node: Rig) -> None:
    script = "mkdir /checkpoints && head -c 96M /dev/zero > /checkpoints/model && stat -c %s /checkpoints/model"
    await node.create_pod("saver", script)
    pod = await node.finished("saver")
    assert node.log(pod) == f"{96 << 20}\n"


def test_what_is_written_beside_the_machines_folders_counts(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_counted)


async def _counted(node: Rig) -> None:
    limits = {"resources": {"limits": {"ephemeral-storage": "8Mi"}}}
    await node.create_pod("greedy", "head -c 32M /dev/zero > /big; sleep 600", container=limits)
    status = (await node.finished("greedy"))["status"]
    assert (status.get("reason"), status.get("message")) == (
        "Evicted",
        'Container main exceeded its local ephemeral storage limit "8Mi". ',
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts an overlay for everybody to see")
@each_account
def test_where_the_nodes_files_are_on_an_overlay_what_pods_write_is_in_memory(account: str, tmp_path: Path) -> None:
    """As in a container, whose files no overlay can be laid over."""
    place = Path(tempfile.mkdtemp(prefix="hekla-overlay-"))
    place.chmod(0o755)
    for name in ("lower", "upper", "work"):
        (tmp_path / name).mkdir(mode=0o755)
    options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    try:
        if subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place]).returncode:
            pytest.skip("no overlay can be laid over these files: so it is what the other tests run on")
        asyncio.run(_in_memory(account, place))
    finally:
        subprocess.run(["umount", "--lazy", place])
        place.rmdir()


async def _in_memory(account: str, place: Path) -> None:
    async with rig(account, parent=place) as node:
        await node.start_agent()
        kinds = 'awk \'$2 == "/" || $2 == "/etc" { print $2, $3 }\' /proc/mounts'
        await node.create_pod("writer", f"mkdir /top && touch /top/a /etc/a /tmp/a && {kinds}; ls -A /.hekla* 2>&1")
        log = node.log(await node.finished("writer")).splitlines()
        assert log[:2] == ["/ tmpfs", "/etc overlay"]
        assert "No such file" in log[2]
        sealed = {"securityContext": {"readOnlyRootFilesystem": True}}
        await node.create_pod("sealed", "touch /top 2>&1", container=sealed)
        assert "Read-only file system" in node.log(await node.finished("sealed"))
        await _restart(node)


def test_a_start_that_failed_leaves_nothing_in_the_way_of_the_next(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_starts_late)


async def _starts_late(node: Rig) -> None:
    await node.create("ConfigMap", "parts", data={"other": "x"})
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/part", "subPath": "late"}]}
    volumes = [{"name": "v", "configMap": {"name": "parts"}}]
    script = "cat /part; touch /tmp/a /run/lock/a && echo ready"
    late = await node.create_pod("late", script, volumes=volumes, container=mount)
    await node.until("late", lambda pod: "CreateContainerError" in str(pod.get("status")))
    attempt = PodDirectory(node.data_dir, late["metadata"]["uid"]).attempt("main", 0)
    assert not list((attempt / "scratch").iterdir())
    await node.client.patch(CONFIG_MAP, "parts", {"data": {"late": "here\n"}}, "default")
    assert node.log(await node.finished("late")) == "here\nready\n"


def test_pods_of_one_volume_have_a_folder_each_by_their_variables(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_folder_each)


async def _folder_each(node: Rig) -> None:
    name = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    mounts = [{"name": "v", "mountPath": "/mine", "subPathExpr": "runs/$(POD)"}, {"name": "v", "mountPath": "/all"}]
    container = {"env": [name], "volumeMounts": mounts}
    volumes = [{"name": "v", "emptyDir": {}}]
    await node.create_pod("own", "echo 1 > /mine/log; cat /all/runs/own/log", volumes=volumes, container=container)
    assert node.log(await node.finished("own")) == "1\n"
    await node.create_pod("nobodys", "true", volumes=volumes, container={"volumeMounts": mounts})
    waiting = await node.until("nobodys", lambda pod: "CreateContainerConfigError" in str(pod.get("status")))
    assert 'missing value for "POD"' in str(waiting["status"])


def test_a_failing_container_is_run_again_where_its_policy_says_so(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_restart)


async def _restart(node: Rig) -> None:
    # What is outside volumes is new in every attempt; what is in them stays.
    looks = "ls /root/left /left 2>/dev/null; touch /root/left /left"
    script = f"{looks}; echo run >> /v/runs; [ $(wc -l < /v/runs) = 2 ] || exit 3"
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "emptyDir": {}}]
    await node.create_pod("again", script, restartPolicy="OnFailure", volumes=volumes, container=mounts)
    pod = await node.finished("again")
    status = pod["status"]["containerStatuses"][0]
    assert (phase(pod), status["restartCount"]) == ("Succeeded", 1)
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert node.log(pod, 0) == node.log(pod, 1) == ""


def test_an_event_tells_of_a_container_that_ended_badly_unless_it_was_told_to_end(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_ends_told)


async def _ends_told(node: Rig) -> None:
    await node.create_pod("stopped", "trap 'exit 5' TERM; while :; do sleep 0.05; done")
    await node.running("stopped")
    await node.client.delete(POD, "stopped", "default")
    await node.until_gone("stopped")
    script = "echo run >> /v/runs; [ $(wc -l < /v/runs) = 2 ] || { echo no data > /dev/termination-log; exit 3; }"
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "emptyDir": {}}]
    await node.create_pod("lost", script, restartPolicy="OnFailure", volumes=volumes, container=mounts)
    await node.finished("lost")

    told = await until(lambda: ends_told(node, "lost", "stopped"))
    assert told == [("lost", "Normal", "Container main ended with exit code 3: no data")]
    await node.client.delete(POD, "lost", "default")
    await node.until_gone("lost")


async def ends_told(node: Rig, *pods: str) -> list[tuple[str, str, str]]:
    """Pod, type and message of the Events of containers that ended badly."""
    events = (await node.client.list(EVENT, "default", field_selector="reason=Error")).items
    mine = [event for event in events if event["involvedObject"]["name"] in pods]
    return [(event["involvedObject"]["name"], event["type"], event["message"]) for event in mine]


def test_a_pod_being_deleted_is_asked_first_and_leaves_nothing(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_deletion)


async def _deletion(node: Rig) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    pod = await node.create_pod("polite", script)
    directory = PodDirectory(node.data_dir, pod["metadata"]["uid"])
    await node.running("polite")
    await soon(directory.log("main", 0).exists, what="it has a log")
    sandbox = directory.sandbox()
    seen: list[str] = []
    node.pods.subscribe(lambda update: seen.append(str((update.obj.get("status") or {}).get("phase"))))
    await node.client.delete(POD, "polite", "default")
    await node.until_gone("polite")
    assert "Succeeded" in seen
    await soon(lambda: not directory.path.exists(), what="its folder is gone")
    assert not records.is_alive(sandbox["process"])


@each_account
def test_after_a_sweep_nothing_is_left_and_the_pod_is_not_run_again(account: str) -> None:
    on_a_node(account, _sweep)


async def _sweep(node: Rig) -> None:
    before = _links_but_others(node.data_dir)
    pod = await node.create_pod("swept", "echo once; sleep 1000")
    again = await node.create_pod("again", "echo run; sleep 1000", restartPolicy="OnFailure")
    await node.running("swept")
    await node.running("again")
    processes = [records.read(str(node.data_dir / "switch.json"))["process"]]
    for each in (pod, again):
        directory = PodDirectory(node.data_dir, each["metadata"]["uid"])
        record = directory.start_record("main", 0)
        assert record is not None
        processes += [record["shim"], record["container"], directory.sandbox()["process"]]
    assert all(map(records.is_alive, processes))
    await node.kill_agent()
    await asyncio.to_thread(sweep_as, node.account, node.data_dir)
    assert not any(map(records.is_alive, processes))
    assert str(node.data_dir) not in Path("/proc/self/mounts").read_text()
    assert _links_but_others(node.data_dir) == before
    assert not list(node.data_dir.glob("pods/*/containers/*/*/scratch"))
    await node.start_agent()
    lost = await node.finished("swept")
    assert lost["status"]["reason"] == "NodeShutdown"
    assert node.log(lost) == "once\n"
    back = await node.until("again", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert "running" in state(await node.running("again"))
    assert back["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "NodeShutdown"


def test_a_folder_that_will_not_go_keeps_neither_the_node_away_nor_the_others_there() -> None:
    async def main() -> None:
        async with rig(ACCOUNTS[0]) as node:
            stuck, other = (ended_pod(node.data_dir, uid) for uid in ("a-stuck", "other"))
            with in_the_way(stuck.path / "containers/main/0/started.json"):
                await node.start_agent()
            assert stuck.path.exists()
            assert not other.path.exists()

    asyncio.run(main())


@each_account
def test_a_killed_switch_costs_no_pod_its_network(account: str) -> None:
    on_a_node(account, _switch_killed)


async def _switch_killed(node: Rig) -> None:
    serve = "import socket; s = socket.create_server(('', 80)); s.accept(); print('heard', flush=True)"
    await node.create_pod("old", container={"command": ["python3", "-c", serve]})
    old = await node.running("old")
    switch = records.read(str(node.data_dir / "switch.json"))["process"]
    os.kill(switch["pid"], 9)
    dial = f"""
import socket, time
while True:
    try:
        socket.create_connection(('{old["status"]["podIP"]}', 80), 1); break
    except OSError: time.sleep(0.02)
"""
    await node.create_pod("new", container={"command": ["python3", "-c", dial]})
    assert phase(await node.finished("old")) == "Succeeded"
    new = await node.finished("new")
    assert phase(new) == "Succeeded"
    assert new["status"]["podIP"] != old["status"]["podIP"]


@each_account
def test_names_are_answered_again_after_the_switch_was_killed(account: str) -> None:
    on_a_node(account, _names_again)


async def _names_again(node: Rig) -> None:
    # No pod holds the network: the next switch makes a new one.
    os.kill(records.read(str(node.data_dir / "switch.json"))["process"]["pid"], signal.SIGKILL)
    await _names(node)
    # And once more with pods that hold it.
    holder = await node.create_pod("holder", "sleep 1000", terminationGracePeriodSeconds=1)
    await node.running("holder")
    os.kill(records.read(str(node.data_dir / "switch.json"))["process"]["pid"], signal.SIGKILL)
    for index in range(3):
        await node.client.delete(POD, f"gang-{index}", "default")
        await node.until_gone(f"gang-{index}")
    await node.client.delete(SERVICE, "gang", "default")
    await _names(node)
    assert records.is_alive(PodDirectory(node.data_dir, holder["metadata"]["uid"]).sandbox()["process"])


def test_a_pod_stays_in_its_box(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_escapes)


# Each attempt prints a line; all must be refused.
_ATTEMPTS = """
import ctypes, errno, os, socket, time

inherited = sorted(os.listdir("/proc/self/fd"))
libc = ctypes.CDLL(None, use_errno=True)

def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")

def write(path, text="1"):
    with open(path, "w") as file:
        file.write(text)

def dial(address, port):
    socket.create_connection((address, port), timeout=60).close()

ATTEMPTS = {
    "mount": lambda: check(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)),
    "remount": lambda: check(libc.mount(None, b"/proc/sys", None, 32 | 4096, None)),
    "host namespace": lambda: check(libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)),
    "block device": lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)),
    "kernel setting": lambda: write("/proc/sys/kernel/hostname"),
    "core pattern": lambda: write("/proc/sys/kernel/core_pattern", "|/bin/true"),
    "sysfs": lambda: write("/sys/kernel/mm/ksm/run"),
    "host process": lambda: os.kill(HOST_PID, 0),
    "reboot": lambda: check(libc.reboot(0)),
    "set time": lambda: time.clock_settime(time.CLOCK_REALTIME, 0),
    "kernel log": lambda: check(libc.klogctl(5, None, 0)),
    "own state": lambda: os.listdir(STATE),
    "host port": lambda: dial("127.0.0.1", HOST_PORT),
    "raw disk": lambda: open("/dev/vda", "rb").read(1),
    "memory": lambda: open("/dev/mem", "rb").read(1),
    "host init": lambda: [][0] if "HEKLA_CANARY" not in open("/proc/1/environ").read() else None,
    "outside": lambda: dial("198.51.100.1", 80),
}
# Not left to wait for somebody who never answers, nor for a neighbour who is not there.
DIALLED, AT_ONCE = ("host port", "outside"), (errno.ECONNREFUSED, errno.ENETUNREACH)
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
    except (OSError, IndexError) as error:
        assert name not in DIALLED or error.errno in AT_ONCE, (name, error)
    else:
        print("ESCAPED", name)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["NoNewPrivs"].strip(), inherited == ["0", "1", "2", "3"])
"""


async def _escapes(node: Rig) -> None:
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        facts = {
            "HOST_PID": os.getpid(),
            "HOST_PORT": listener.getsockname()[1],
            "STATE": str(node.data_dir),
        }
        script = "".join(f"{name} = {value!r}\n" for name, value in facts.items()) + _ATTEMPTS
        await node.create_pod("escaping", container={"command": ["python3", "-c", script]})
        pod = await node.finished("escaping")
    assert node.log(pod) == "1 True\n"
    assert phase(pod) == "Succeeded"
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding


def test_secrets_stay_off_the_disk_and_are_gone_with_the_pod(on_a_shared_node: Tell) -> None:
    on_a_shared_node(_secrets)


async def _secrets(node: Rig) -> None:
    canary = f"canary-{os.getpid()}-{os.urandom(8).hex()}"
    await node.create("Secret", "s", stringData={"key": canary})
    reference = {"secretKeyRef": {"name": "s", "key": "key"}}
    pod = await node.create_pod(
        "keeper",
        "cat /root/.ssh/key; stat -Lc %a /root/.ssh/key; echo $SECRET; sleep 1000",
        volumes=[{"name": "s", "secret": {"secretName": "s", "defaultMode": 256}}],
        container={
            "env": [{"name": "SECRET", "valueFrom": reference}],
            "volumeMounts": [{"name": "s", "mountPath": "/root/.ssh"}],
        },
        terminationGracePeriodSeconds=1,
    )
    await node.running("keeper")
    directory = PodDirectory(node.data_dir, pod["metadata"]["uid"])
    await soon(lambda: len(node.log(pod).splitlines()) >= 2, what="it has spoken")
    assert node.log(pod).splitlines()[:2] == [f"{canary}400", canary]
    # The container said it aloud, so its log has it; nothing else on disk may.
    found = subprocess.run(["grep", "-rl", canary, str(node.data_dir)], capture_output=True, text=True, check=False)
    assert found.stdout.split() == [str(directory.log("main", 0))]
    assert directory.memory.exists()
    await node.client.delete(POD, "keeper", "default")
    await node.until_gone("keeper")
    await soon(lambda: not directory.path.exists(), what="its folder is gone")
    assert not directory.memory.exists()


def test_a_limit_with_which_nothing_starts_is_named() -> None:
    on_a_node(ACCOUNTS[0], _too_little_memory)


async def _too_little_memory(node: Rig) -> None:
    limits = {"resources": {"limits": {"memory": "512m"}}}
    await node.create_pod("tiny", container={"command": ["true"], **limits})
    if recorded_cgroups(node.data_dir) is None:
        return
    waiting = await node.until("tiny", lambda pod: "memory limit" in str(pod["status"]))
    assert state(waiting)["waiting"]["message"] == "its memory limit is too small to start it"


def test_a_container_that_takes_too_much_memory_is_killed_and_says_so() -> None:
    on_a_node(ACCOUNTS[0], _out_of_memory)


async def _out_of_memory(node: Rig) -> None:
    greedy = "print(len(bytearray(1 << 20)), flush=True); len(bytearray(300 << 20))"
    limits = {"resources": {"limits": {"memory": "100Mi", "cpu": "1"}}}
    pod = await node.create_pod("greedy", container={"command": ["python3", "-c", greedy], **limits})
    ended = await node.finished("greedy")
    cgroups = recorded_cgroups(node.data_dir)
    if cgroups is None:
        # A machine that grants no control groups to this account: then the pod must have been told.
        events = await node.client.find_all(EVENT, "default")
        assert any("resource limits" in event["message"] for event in events)
        return
    assert state(ended)["terminated"]["reason"] == "OOMKilled"
    assert exit_code(ended) == 137
    assert node.log(pod) == "1048576\n"
    assert not [path for root in cgroups.roots.values() for path in Path(root).glob(f"{pod['metadata']['uid']}*")]


@each_account
def test_however_often_the_agent_is_killed_every_pod_runs_exactly_once(account: str) -> None:
    on_a_node(account, _many_kills)


async def _many_kills(node: Rig) -> None:
    moments = random.Random(7)
    names = []
    stages = ["pod.json", "sandbox.json", "containers/*/*/started.json", "containers/*/*/exit.json"]
    for round_ in range(len(stages)):
        pods = []
        for index in range(3):
            names.append(f"p{round_}-{index}")
            pods.append(await node.create_pod(names[-1], f"echo once; sleep 0.{moments.randrange(5)}; exit {index}"))
        # Killed when the first of the round has come so far, or further; the others may be anywhere.
        places = [PodDirectory(node.data_dir, pod["metadata"]["uid"]).path for pod in pods]
        signs = [(place, stage) for place in places for stage in stages[round_:]]
        await soon(lambda signs=signs: any(any(place.glob(stage)) for place, stage in signs), what=stages[round_])
        await node.kill_agent()
        await node.start_agent()
    for name in names:
        pod = await node.finished(name)
        assert exit_code(pod) == int(name[-1])
        assert node.log(pod) == "once\n"
        assert PodDirectory(node.data_dir, pod["metadata"]["uid"]).attempt_numbers("main") == [0]


@each_account
def test_a_container_that_is_killed_with_its_shim_leaves_no_process(account: str) -> None:
    on_a_node(account, _shim_killed)


async def _shim_killed(node: Rig) -> None:
    pod = await node.create_pod("orphan", "sleep 1000 & sleep 1000")
    await node.running("orphan")
    record = PodDirectory(node.data_dir, pod["metadata"]["uid"]).start_record("main", 0)
    assert record is not None
    os.kill(record["shim"]["pid"], signal.SIGKILL)
    lost = await node.finished("orphan")
    assert exit_code(lost) == 137
    assert state(lost)["terminated"]["reason"] == "ContainerStatusUnknown"
    await soon(lambda: not records.is_alive(record["container"]), what="the container is gone")


@each_account
def test_pods_as_plain_processes_still_run_and_say_what_they_cannot(account: str) -> None:
    async def tell() -> None:
        async with rig(account) as node:
            await node.start_agent(isolation="process")
            await node.create_pod("plain", "echo $HOSTNAME; exit 4")
            volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
            mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
            await node.create_pod("volume", "true", container=mounts, **volume)
            await node.create_pod("tree", "sleep 1000 & sleep 1000", terminationGracePeriodSeconds=1)
            plain = await node.finished("plain")
            assert (exit_code(plain), node.log(plain)) == (4, "plain\n")
            waiting = await node.until("volume", lambda pod: "waiting" in str(pod.get("status")))
            assert "forbids namespaces" in str(state(waiting))
            await node.running("tree")
            await node.client.delete(POD, "tree", "default")
            await node.until_gone("tree")

    asyncio.run(tell())


def _links_but_others(data_dir: Path) -> list[str]:
    """The machine's links, without the ways out of clusters that others have here."""
    links = {entry.name for entry in Path("/sys/class/net").iterdir()}
    return sorted(name for name in links if not name.startswith("hk") or name == link_name(data_dir))
