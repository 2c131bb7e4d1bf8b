"""The warden: sees to it that nothing of a cluster that was made for one run outlives it.

Pods, their pauses and the switch survive the processes of their cluster, so that the next start takes them back. For a
cluster that nobody will start again they would stay for ever, had its supervisor no time to sweep. The warden waits for
that process to end, however it does, and sweeps in its place. Who sweeps in good order sends the warden home.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import traceback
from pathlib import Path

from hekla.node import records
from hekla.node import syscalls as sys_

RECORD = "warden.json"
LOCK = "warden.lock"


def fork_warden(data_dir: Path, ends_with: records.ProcessId) -> None:
    """Call in a process that belongs to nobody, has entered no namespace and opened nothing but its standard streams.

    Where there is a warden already, no other is needed.
    """
    if os.fork():
        return
    try:
        _let_go_of_streams()
        sys_.set_process_name("hekla-warden")
        lock = os.open(data_dir / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        records.write(str(data_dir / RECORD), records.process_id(os.getpid()), durable=False)
        ended = records.open_process(ends_with)
        if ended is not None:
            select.select([ended], [], [])
        from hekla.node.cleanup import sweep

        sweep(data_dir)
    except BlockingIOError:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def dismiss_warden(data_dir: Path) -> None:
    """Everything has been swept. Returns when the warden is gone, unless it is who calls."""
    process = records.read(str(data_dir / RECORD))
    descriptor = records.open_process(process) if process and process["pid"] != os.getpid() else None
    if descriptor is not None:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [])
        os.close(descriptor)
    (data_dir / RECORD).unlink(missing_ok=True)


def _let_go_of_streams() -> None:
    """But for standard error, which is the switch's log: whoever started the switch waits for the others to close."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)
