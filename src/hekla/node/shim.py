"""The process beside each container: starts it, keeps its output, remembers how it ended.

It belongs to nobody: the agent may be killed at any moment and the container runs on. What the agent needs to take it
back is in two records (`records.py`): `started.json` is on disk before the command runs, so a container that must
not run twice never does; `exit.json` is on disk before the shim ends, which is what tells the agent.

    spawner ── fork ──> shim (own session, enters the pod's namespaces)
                          └─ fork ──> pid 1 of the container: builds its root, gives up privileges, becomes the command

The container dies with its shim (parent-death signal) and everything in it dies with its pid 1 (pid namespace). The
specification comes in a file in memory, so that secrets in the environment never touch a disk; one line goes back:
`started`, or what went wrong.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from typing import NoReturn, TypedDict

from hekla.node import records, rootfs, seccomp
from hekla.node import syscalls as sys_
from hekla.node.left_files import left_files
from hekla.node.shim_streams import STDERR, STDOUT, ContainerStreams, stamp
from hekla.node.terminal import live_in_terminal, open_terminal
from hekla.node.usage import standing_of, used_by_child

START_ERROR = "StartError"
START_ERROR_CODE = 128
_NOT_FOUND_CODE = 127  # a shell's, for a program that is not there
_RETRY_SECONDS = 1.0
_MESSAGE_BYTES = 4096
_CAPABILITIES_TO_CHANGE_IDENTITY = frozenset({6, 7, 8})  # SETGID SETUID SETPCAP


class Identity(TypedDict):
    """Who a process of a container is."""

    pause: records.ProcessId | None  # whose namespaces to enter; None: plain process, no isolation
    user_namespace: bool
    ids: int  # how many there are in its user namespace, from 0 on
    uid: int
    gid: int
    groups: list[int]
    capabilities: list[int]  # what uid 0 keeps, by the kernel's numbers


class StreamPlan(TypedDict):
    stdin: bool
    stdin_once: bool
    tty: bool


class ContainerSpec(TypedDict):
    directory: str  # of this attempt, on the host
    identity: Identity
    root: rootfs.RootPlan
    streams: StreamPlan
    cgroups: list[str]  # folders of the groups to run in
    message_file: str  # on the host; where the container may leave its last words
    argv: list[str]
    env: dict[str, str]
    cwd: str
    about_image: str  # what explains that a program is not there; empty where nothing does


class ProgramNotFound(OSError):
    """There is no such program where the container looks for it."""


def run(specification: int, answer: int) -> NoReturn:
    """In a process of the spawner's, with what the agent gave it."""
    with open(specification, "rb") as file:
        spec: ContainerSpec = json.loads(file.read())
    os.dup2(answer, 1)
    os.close(answer)
    try:
        _enter_pod(spec)
        _Shim(spec).run()
    except OSError as error:
        _answer(f"error {describe(error)}")
        os._exit(1)


class _Shim:
    def __init__(self, spec: ContainerSpec) -> None:
        self._spec = spec
        self._started_at = ""

    def run(self) -> NoReturn:
        # 1. Pid 1 builds the container's root and waits; it tells how it went on `status`.
        wires = _Wires(self._spec["streams"])
        status, go = os.pipe(), os.pipe()
        if self._spec["identity"]["pause"] is not None:
            sys_.unshare(sys_.CLONE_NEWPID)
        child = os.fork()
        if child == 0:
            _be_container(self._spec, wires, status[1], go[0])
        for descriptor in (status[1], go[0]):
            os.close(descriptor)
        sys_.set_process_name("hekla-shim")
        self._limit(child)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        failure = read_message(status[0])
        if failure != "ready":
            self._refuse(child, failure or self._unexplained())
        streams, standing = self._listen(child, wires), standing_of(child)
        # 2. From here on the attempt counts as started, whatever dies next.
        self._claim(child)
        # 3. Run. Nothing more on `status` means that the command has taken over.
        os.write(go[1], b"1")
        os.close(go[1])
        failure = read_message(status[0])
        if failure:
            os.waitpid(child, 0)
            self._leave_cgroups()
            self._finish({"code": START_ERROR_CODE, "reason": START_ERROR, "message": failure})
            _answer("started")
            os._exit(0)
        _answer("started")
        detach_standard_streams()
        # 4. Keep what it says until it ends.
        outcome = _outcome(streams.pump(child))
        if outcome["code"] and _ran_out_of_memory(self._spec["cgroups"]):
            outcome["reason"] = "OOMKilled"
        outcome["used"] = used_by_child(standing, self._spec["cgroups"])
        outcome["used"].update(left_files(self._spec["root"]["scratch"], self._spec["cwd"]))
        self._finish(outcome)
        self._leave_cgroups()
        os._exit(0)

    def _listen(self, child: int, wires: _Wires) -> ContainerStreams:
        sources, sink = wires.outside()
        plan = self._spec["streams"]
        try:
            return ContainerStreams(self._spec["directory"], sources, sink, once=plan["stdin_once"], tty=plan["tty"])
        except OSError as error:
            self._refuse(child, describe(error))

    def _limit(self, child: int) -> None:
        """Before anything of the user's runs. Without its limits a container is not started."""
        for folder in self._spec["cgroups"]:
            try:
                with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write(str(child))
            except OSError as error:
                self._refuse(child, f"resource limits: {describe(error)}")

    def _leave_cgroups(self) -> None:
        for folder in self._spec["cgroups"]:
            try:
                os.rmdir(folder)
            except OSError:
                pass  # the agent tries again when the pod goes

    def _claim(self, child: int) -> None:
        self._started_at = stamp().decode()
        record: records.StartRecord = {
            "shim": records.process_id(os.getpid()),
            "container": records.process_id(child),
            "startedAt": self._started_at,
        }
        try:
            records.reserve(self._record("exit.json"))
            claimed = records.write(self._record("started.json"), record, exclusive=True)
        except FileNotFoundError:
            claimed = False  # the pod has been cleared away meanwhile
        except OSError as error:
            self._refuse(child, describe(error))
        if not claimed:
            self._refuse(child, "this attempt has been started before")

    def _refuse(self, child: int, failure: str) -> NoReturn:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self._leave_cgroups()
        _answer(f"error {failure}")
        os._exit(1)

    def _unexplained(self) -> str:
        """The container went without a word: killed, and the kernel may know for what."""
        if _ran_out_of_memory(self._spec["cgroups"]):
            return "its memory limit is too small to start it"
        return "the container ended while it was being set up"

    def _finish(self, outcome: records.ExitRecord) -> None:
        said = outcome.get("message") or _last_words(self._spec["message_file"])
        if not said and outcome["code"] == _NOT_FOUND_CODE:
            said = self._spec["about_image"]
        if said:
            outcome["message"] = said
        outcome["startedAt"] = self._started_at
        outcome["finishedAt"] = stamp().decode()
        while True:
            try:
                records.write_reserved(self._record("exit.json"), outcome)
                return
            except FileNotFoundError:
                return  # the pod has been cleared away: nobody will ask
            except OSError:
                # A full disk. Gone without a record, the container's fate would be unknown; as long as we are here it
                # counts as running.
                time.sleep(_RETRY_SECONDS)

    def _record(self, name: str) -> str:
        return os.path.join(self._spec["directory"], name)


def _enter_pod(spec: ContainerSpec) -> None:
    pause = spec["identity"]["pause"]
    if pause is None:
        return
    holder = records.open_process(pause)
    if holder is None:
        raise OSError(0, "the pod's sandbox is gone")
    kinds = [("net", sys_.CLONE_NEWNET), ("uts", sys_.CLONE_NEWUTS), ("ipc", sys_.CLONE_NEWIPC)]
    if spec["identity"]["user_namespace"]:
        kinds.insert(0, ("user", sys_.CLONE_NEWUSER))
    # All opened first: once inside the user namespace, the host's /proc entries may be out of reach.
    opened = [(os.open(f"/proc/{pause['pid']}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds]
    for descriptor, kind in opened:
        sys_.setns(descriptor, kind)
        os.close(descriptor)
    os.close(holder)


class _Wires:
    """A container's standard streams: made before there is a container, then divided between it and its shim."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._terminal = socket.socketpair() if plan["tty"] else None
        self._input = os.pipe() if plan["stdin"] and not plan["tty"] else None
        self._outputs: tuple[tuple[int, int], ...] = () if plan["tty"] else (os.pipe(), os.pipe())
        self._slave = -1

    def prepare_inside(self, uid: int) -> None:
        """In the container, once its root is there: its terminal belongs to it."""
        if self._terminal is not None:
            master, self._slave = open_terminal(uid)
            socket.send_fds(self._terminal[1], [b"t"], [master])
            os.close(master)

    def connect_inside(self) -> None:
        if self._terminal is not None:
            live_in_terminal(self._slave)
            return
        source = self._input[0] if self._input is not None else os.open("/dev/null", os.O_RDONLY)
        for number, descriptor in enumerate((source, self._outputs[0][1], self._outputs[1][1])):
            os.dup2(descriptor, number)

    def outside(self) -> tuple[dict[int, int], int | None]:
        """Where the container's outputs are read, and its input is written. It must have said that it is ready."""
        if self._terminal is not None:
            master = socket.recv_fds(self._terminal[0], 1, 1)[1][0]
            for each in self._terminal:
                each.close()
            return {STDOUT: master}, master
        for _, descriptor in self._outputs:
            os.close(descriptor)
        if self._input is not None:
            os.close(self._input[0])
        sources = {STDOUT: self._outputs[0][0], STDERR: self._outputs[1][0]}
        return sources, self._input[1] if self._input is not None else None


def _be_container(spec: ContainerSpec, wires: _Wires, status: int, go: int) -> NoReturn:
    """The life of pid 1 up to exec. Whatever goes wrong is said on `status`."""
    try:
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if spec["identity"]["pause"] is not None:
            # Not the shim's: pivot_root moves every process of the mount namespace, and the shim needs the host's.
            sys_.unshare(sys_.CLONE_NEWNS)
            rootfs.enter(spec["root"])
        wires.prepare_inside(spec["identity"]["uid"])
        os.write(status, b"ready\n")
        if os.read(go, 1) != b"1":
            os._exit(1)
        wires.connect_inside()
        if spec["identity"]["pause"] is not None:
            _make_directory(spec["cwd"])
        drop_privileges(spec["identity"])
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)  # changing identity clears it
        os.chdir(spec["cwd"])
        reset_signals()
        execute(spec["argv"], spec["env"])
    except ProgramNotFound as error:
        os.write(status, "; ".join(filter(None, (describe(error), spec["about_image"]))).encode())
    except OSError as error:
        os.write(status, describe(error).encode())
    except BaseException as error:
        os.write(status, repr(error).encode())
    os._exit(1)


def drop_privileges(who: Identity, *, posed: bool = False) -> None:
    """Become who the process is to be. `posed`: that part of it has been done."""
    os.umask(0o022)
    if who["pause"] is None:
        sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.confine()
        return
    if poses(who):
        if not posed:
            pose(who, os.open("/proc/self", os.O_PATH | os.O_CLOEXEC))
    elif who["ids"] > 1:
        os.setgroups(who["groups"])
        os.setresgid(who["gid"], who["gid"], who["gid"])
    _last_steps(who)


def _last_steps(who: Identity) -> None:
    if who["uid"] and not poses(who):
        sys_.keep_capabilities(_CAPABILITIES_TO_CHANGE_IDENTITY)
        os.setresuid(who["uid"], who["uid"], who["uid"])
        sys_.keep_capabilities(frozenset())
    else:
        sys_.keep_capabilities(frozenset(who["capabilities"]) if not who["uid"] else frozenset())
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.confine()


def poses(who: Identity) -> bool:
    """Whether it asks for an id there is not: then its own is shown under that number."""
    return who["user_namespace"] and max(who["uid"], who["gid"]) >= who["ids"]


def pose(who: Identity, proc: int) -> None:
    """Show our one id under the numbers asked for, where it must be. `proc` is our own folder there."""
    if not poses(who):
        return
    sys_.unshare(sys_.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{who['uid']} 0 1"), ("gid_map", f"{who['gid']} 0 1")):
        descriptor = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        os.write(descriptor, text.encode())
        os.close(descriptor)


def _make_directory(path: str) -> None:
    """A working directory that is not there is made, as container engines do; whether it may be entered shows later."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError:
        pass


def reset_signals() -> None:
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                pass
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def closed_part(path: str) -> str:
    """The first folder on the way to a program that we may not enter, links followed; empty where there is none."""
    parts = os.path.realpath(path).split("/")[1:-1]
    for length in range(1, len(parts) + 1):
        folder = "/" + "/".join(parts[:length])
        if not os.access(folder, os.X_OK):
            return folder
    return ""


def execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    program = argv[0]
    if "/" in program:
        candidates = [program]
    else:
        candidates = [os.path.join(folder, program) for folder in env.get("PATH", os.defpath).split(":") if folder]
    refusal: OSError | None = None
    refused = ""
    for candidate in candidates:
        try:
            os.execve(candidate, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refusal, refused = error, candidate
    if refusal is not None:
        closed = closed_part(refused)
        why = f" ({closed} is closed to user {os.getuid()})" if closed else ""
        raise OSError(refusal.errno, f'exec: "{program}": {(refusal.strerror or "").lower()}{why}')
    where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
    raise ProgramNotFound(0, f'exec: "{program}": {where}')


def _outcome(wait_status: int) -> records.ExitRecord:
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        return {"code": 128 + number, "signal": number, "reason": "Error"}
    code = os.WEXITSTATUS(wait_status)
    return {"code": code, "reason": "Error" if code else "Completed"}


def _last_words(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _ran_out_of_memory(folders: list[str]) -> bool:
    """Whether the kernel has killed something in one of these groups for want of memory."""
    for folder in folders:
        for name in ("memory.events", "memory.oom_control"):
            try:
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    counts = dict(line.split() for line in file)
            except (OSError, ValueError):
                continue
            if int(counts.get("oom_kill", 0)):
                return True
    return False


def detach_standard_streams() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def read_message(status: int) -> str:
    """The next line, or all there is when the other end closes."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(status, 4096)
        if not chunk:
            break
        data += chunk
    return data.decode(errors="replace").strip()


def describe(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


def _answer(text: str) -> None:
    try:
        os.write(1, text.encode() + b"\n")
    except OSError:
        pass  # the agent is gone; the records speak
