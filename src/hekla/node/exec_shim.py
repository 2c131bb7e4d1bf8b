"""The process that runs one more command in a container that is there: `kubectl exec`, probes, hooks.

    spawner ── fork ──> exec shim (enters the container's namespaces and limits)
                          └─ fork ──> a process of the container: gives up privileges, becomes the command

The specification comes over a socket; back goes `{"pid": …}` (with the
terminal, where one was asked for) once the command runs, or `{"error": …}`, and `{"code": …}` when it has ended. Unlike
a container, a command ends with whoever asked for it: when the socket closes it is killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from typing import Any, NoReturn, TypedDict

from hekla.node import records, shim
from hekla.node import syscalls as sys_
from hekla.node.terminal import live_in_terminal, open_terminal

_MESSAGE_BYTES = 4 << 20
_NAMESPACES = (
    ("ipc", sys_.CLONE_NEWIPC),
    ("uts", sys_.CLONE_NEWUTS),
    ("net", sys_.CLONE_NEWNET),
    ("pid", sys_.CLONE_NEWPID),
    ("mnt", sys_.CLONE_NEWNS),
)


class ExecSpec(TypedDict):
    container: records.ProcessId  # pid 1 of the container
    identity: shim.Identity
    cgroups: list[str]
    argv: list[str]
    env: dict[str, str]
    cwd: str
    tty: bool


def run(stdin: int, stdout: int, stderr: int, talk: int) -> NoReturn:
    """In a process of the spawner's, with what the agent gave it."""
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    control = socket.socket(fileno=talk)
    control.set_inheritable(False)
    spec: ExecSpec = json.loads(control.recv(_MESSAGE_BYTES))
    proc = os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)
    try:
        _join(spec)
        terminal = open_terminal(spec["identity"]["uid"]) if spec["tty"] else None
        shim.pose(spec["identity"], proc)
        # What is forked from here on can be seen in the container: nobody there may look into it, or through
        # /proc reach the host's own program file, before the command has taken its place.
        sys_.prctl(sys_.PR_SET_DUMPABLE, 0)
        _run(spec, control, terminal)
    except OSError as error:
        _say(control, {"error": shim.describe(error)})
        os._exit(1)


def _join(spec: ExecSpec) -> None:
    held = records.open_process(spec["container"])
    if held is None:
        raise OSError(0, "the container is not running")
    for folder in spec["cgroups"]:
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    pause = spec["identity"]["pause"]
    if pause is None:
        return
    # All opened first: once inside, the host's /proc is out of sight.
    opened = [(_namespace(spec["container"]["pid"], name), kind) for name, kind in _NAMESPACES]
    if spec["identity"]["user_namespace"]:
        # The pod's, which owns the others; the container's own may be a further one.
        opened.insert(0, (_namespace(pause["pid"], "user"), sys_.CLONE_NEWUSER))
    for descriptor, kind in opened:
        sys_.setns(descriptor, kind)
        os.close(descriptor)
    os.close(held)


def _namespace(pid: int, name: str) -> int:
    return os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _run(spec: ExecSpec, control: socket.socket, terminal: tuple[int, int] | None) -> NoReturn:
    failure_read, failure_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(failure_read)
        _be_command(spec, terminal[1] if terminal else None, failure_write)
    os.close(failure_write)
    failure = shim.read_message(failure_read)
    if failure:
        os.waitpid(child, 0)
        _say(control, {"error": failure})
        os._exit(1)
    _say(control, {"pid": child}, [terminal[0]] if terminal else [])
    # Whoever reads the command's output must see its end when it goes, not when we do.
    shim.detach_standard_streams()
    if terminal:
        os.close(terminal[0])
        os.close(terminal[1])
    code = _wait(child, control)
    _say(control, {"code": code if code >= 0 else 128 - code})
    os._exit(0)


def _wait(child: int, control: socket.socket) -> int:
    """Until it ends, by itself or because nobody is interested any more.

    It is always reaped here: left to the host's init, a zombie could keep the container's pid namespace from going.
    """
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, control.fileno()], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _be_command(spec: ExecSpec, terminal: int | None, failure: int) -> NoReturn:
    try:
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        if terminal is not None:
            live_in_terminal(terminal)
        shim.drop_privileges(spec["identity"], posed=True)
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)  # changing identity clears it
        os.chdir(spec["cwd"])
        shim.reset_signals()
        shim.execute(spec["argv"], spec["env"])
    except OSError as error:
        os.write(failure, shim.describe(error).encode())
    except BaseException as error:
        os.write(failure, repr(error).encode())
    os._exit(1)


def _say(control: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    try:
        if descriptors:
            socket.send_fds(control, [json.dumps(message).encode()], descriptors)
        else:
            control.send(json.dumps(message).encode())
    except OSError:
        pass  # the agent is gone, and we with it
