"""The process beside each container: starts it, keeps its output, remembers how it ended.

It belongs to nobody: the agent may be killed at any moment and the container runs on. What the agent needs to take it
back is in two records (`records.py`): `started.json` is on disk before the command runs, so a container that must
not run twice never does; `exit.json` is on disk before the shim ends, which is what tells the agent.

    agent ── python ──> shim (own session, enters the pod's namespaces)
                          └─ fork ──> pid 1 of the container: builds its root, gives up privileges, becomes the command

The container dies with its shim (parent-death signal) and everything in it dies with its pid 1 (pid namespace). The
specification comes through standard input, so that secrets in the environment never touch a disk; standard output
carries one line back: `started`, or what went wrong.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import NoReturn, TypedDict

from hekla.node import records, rootfs
from hekla.node import syscalls as sys_

START_ERROR = "StartError"
LOG_BYTES = 10 << 20
LOG_FILES = 5
START_ERROR_CODE = 128
_RETRY_SECONDS = 1.0
_LINE_BYTES = 16 * 1024
_MESSAGE_BYTES = 4096
_READ_BYTES = 64 * 1024
# What common container engines leave a container by default, without mknod: there is no device cgroup to guard it.
# CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT AUDIT_WRITE SETFCAP
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})


class Identity(TypedDict):
    """Who a process of a container is."""

    pause: records.ProcessId | None  # whose namespaces to enter; None: plain process, no isolation
    user_namespace: bool
    uid: int
    gid: int
    groups: list[int]


class ContainerSpec(TypedDict):
    directory: str  # of this attempt, on the host
    identity: Identity
    root: rootfs.RootPlan
    cgroups: list[str]  # folders of the groups to run in
    message_file: str  # on the host; where the container may leave its last words
    argv: list[str]
    env: dict[str, str]
    cwd: str


def main() -> None:
    spec: ContainerSpec = json.loads(sys.stdin.buffer.read())
    try:
        _enter_pod(spec)
        # A grandchild of the agent, in a session of its own: nobody waits for it but init.
        if os.fork():
            os._exit(0)
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
        streams = (os.pipe(), os.pipe())
        status, go = os.pipe(), os.pipe()
        if self._spec["identity"]["pause"] is not None:
            sys_.unshare(sys_.CLONE_NEWPID)
        child = os.fork()
        if child == 0:
            _be_container(self._spec, streams, status[1], go[0])
        for descriptor in (streams[0][1], streams[1][1], status[1], go[0]):
            os.close(descriptor)
        sys_.set_process_name("hekla-shim")
        self._limit(child)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        failure = read_message(status[0])
        if failure != "ready":
            self._refuse(child, failure)
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
        wait_status = _pump(child, streams[0][0], streams[1][0], os.path.join(self._spec["directory"], "log"))
        outcome = _outcome(wait_status)
        if outcome["code"] and _ran_out_of_memory(self._spec["cgroups"]):
            outcome["reason"] = "OOMKilled"
        self._finish(outcome)
        self._leave_cgroups()
        os._exit(0)

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
        self._started_at = _now()
        record: records.StartRecord = {
            "shim": records.process_id(os.getpid()),
            "container": records.process_id(child),
            "startedAt": self._started_at,
        }
        try:
            claimed = records.write(self._record("started.json"), record, exclusive=True)
        except FileNotFoundError:
            claimed = False  # the pod has been cleared away meanwhile
        if not claimed:
            self._refuse(child, "this attempt has been started before")

    def _refuse(self, child: int, failure: str) -> NoReturn:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self._leave_cgroups()
        _answer(f"error {failure or 'the container ended while it was being set up'}")
        os._exit(1)

    def _finish(self, outcome: records.ExitRecord) -> None:
        last_words = _last_words(self._spec["message_file"])
        if last_words and not outcome.get("message"):
            outcome["message"] = last_words
        outcome["startedAt"] = self._started_at
        outcome["finishedAt"] = _now()
        while True:
            try:
                records.write(self._record("exit.json"), outcome)
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


def _be_container(
    spec: ContainerSpec, streams: tuple[tuple[int, int], tuple[int, int]], status: int, go: int
) -> NoReturn:
    """The life of pid 1 up to exec. Whatever goes wrong is said on `status`."""
    try:
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if spec["identity"]["pause"] is not None:
            # Not the shim's: pivot_root moves every process of the mount namespace, and the shim needs the host's.
            sys_.unshare(sys_.CLONE_NEWNS)
            rootfs.enter(spec["root"])
        os.write(status, b"ready\n")
        if os.read(go, 1) != b"1":
            os._exit(1)
        _wire_standard_streams(streams[0][1], streams[1][1])
        if spec["identity"]["pause"] is not None:
            _make_directory(spec["cwd"])
        drop_privileges(spec["identity"])
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)  # changing identity clears it
        os.chdir(spec["cwd"])
        reset_signals()
        execute(spec["argv"], spec["env"])
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
        return
    if who["user_namespace"]:
        if not posed:
            pose(who, os.open("/proc/self", os.O_PATH | os.O_CLOEXEC))
    else:
        os.setgroups(who["groups"])
        os.setresgid(who["gid"], who["gid"], who["gid"])
    _last_steps(who)


def _last_steps(who: Identity) -> None:
    if who["uid"] and not who["user_namespace"]:
        sys_.keep_capabilities(_KEPT_CAPABILITIES)
        os.setresuid(who["uid"], who["uid"], who["uid"])
        sys_.keep_capabilities(frozenset())
    else:
        sys_.keep_capabilities(_KEPT_CAPABILITIES if not who["uid"] else frozenset())
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)


def pose(who: Identity, proc: int) -> None:
    """An ordinary user has one identity to give: show it under the number asked for. `proc` is our own folder there."""
    if not (who["uid"] or who["gid"]):
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


def execute(argv: list[str], env: dict[str, str]) -> NoReturn:
    program = argv[0]
    if "/" in program:
        candidates = [program]
    else:
        candidates = [os.path.join(folder, program) for folder in env.get("PATH", os.defpath).split(":") if folder]
    refusal: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refusal = error
    if refusal is not None:
        raise OSError(refusal.errno, f'exec: "{program}": {(refusal.strerror or "").lower()}')
    where = "no such file or directory" if "/" in program else "executable file not found in $PATH"
    raise OSError(0, f'exec: "{program}": {where}')


def _pump(child: int, out: int, err: int, path: str) -> int:
    """Copy both streams into the log until the container has ended and nothing is left to read."""
    ended = os.pidfd_open(child)
    log = _Log(path)
    pending = {out: b"", err: b""}
    names = {out: b"stdout", err: b"stderr"}
    poller = select.poll()
    for descriptor in (out, err, ended):
        poller.register(descriptor, select.POLLIN)
    running = True
    while pending:
        # After the end only what is already in the pipes matters: with pid 1 everything that could write is gone,
        # except in plain-process mode, where a stray grandchild must not keep the container alive.
        ready = poller.poll(None if running else 0)
        if not running and not ready:
            break
        for descriptor, _ in ready:
            if descriptor == ended:
                running = False
                poller.unregister(ended)
                continue
            data = os.read(descriptor, _READ_BYTES)
            if data:
                pending[descriptor] = log.write_lines(names[descriptor], pending[descriptor] + data)
            else:
                poller.unregister(descriptor)
                log.write_rest(names[descriptor], pending.pop(descriptor))
    for descriptor, rest in pending.items():
        log.write_rest(names[descriptor], rest)
    return os.waitpid(child, 0)[1]


class _Log:
    """Lines as `<time> <stream> <F|P> <text>`; `log` is the newest file, `log.1` the one before, at most so many."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = 0
        self._open()

    def write_lines(self, stream: bytes, data: bytes) -> bytes:
        """Log whole lines (and full buffers, marked partial); return what is still incomplete."""
        *lines, rest = data.split(b"\n")
        stamp = _stamp()
        entries = []
        for line in lines:
            while len(line) > _LINE_BYTES:
                entries.append(b"%b %b P %b\n" % (stamp, stream, line[:_LINE_BYTES]))
                line = line[_LINE_BYTES:]
            entries.append(b"%b %b F %b\n" % (stamp, stream, line))
        while len(rest) > _LINE_BYTES:
            entries.append(b"%b %b P %b\n" % (stamp, stream, rest[:_LINE_BYTES]))
            rest = rest[_LINE_BYTES:]
        self._write(b"".join(entries))
        return rest

    def write_rest(self, stream: bytes, rest: bytes) -> None:
        if rest:
            self._write(b"%b %b P %b\n" % (_stamp(), stream, rest))

    def _write(self, data: bytes) -> None:
        self._size += len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            if self._size > LOG_BYTES:
                self._rotate()
        except OSError:
            pass  # a full disk loses output; it must not block or end the container

    def _rotate(self) -> None:
        for number in range(LOG_FILES - 1, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(older):
                os.rename(older, f"{self._path}.{number}")
        os.close(self._file)
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = 0


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


def _wire_standard_streams(out: int, err: int) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(null)


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


def _now() -> str:
    return _stamp().decode()


def _stamp() -> bytes:
    """RFC 3339 with nanoseconds, as in the logs of other container engines."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return b"%b.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), nanoseconds)


if __name__ == "__main__":
    main()
