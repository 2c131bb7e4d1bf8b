"""What a container says and hears, while its shim looks after it.

Output goes to the log, and to whoever is attached; what they send goes to the container's standard input. One who
listens slowly slows the container down, as a terminal would; one who does not listen at all is let go after a while. A
full disk loses output. A line is kept when it ends; one that has stood unfinished for a moment, like a progress bar or
a question, in pieces.

Attached are connections to a socket in the attempt's folder. Each begins by saying which output it wants, and whether
it speaks too; after that every message is a piece of a stream (`attaching.py` is the other side).

Runs in the shim: os, select and socket only.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import termios
import time
from collections import deque

LOG_BYTES = 10 << 20
LOG_FILES = 5
ATTACH_SOCKET = "attach.sock"
STDOUT, STDERR = 1, 2
# What an attached client's message is about: its first byte.
INPUT, INPUT_ENDS, SIZE = 0, 1, 2
_LINE_BYTES = 16 * 1024
_READ_BYTES = 32 * 1024
_BACKLOG_BYTES = 1 << 18
_PATIENCE_SECONDS = 10.0
_STANDING_SECONDS = 0.5
_NAMES = {STDOUT: b"stdout", STDERR: b"stderr"}


class ContainerStreams:
    """`sources`: descriptor to read for each output. `sink`: where input goes, if the container takes any."""

    def __init__(self, folder: str, sources: dict[int, int], sink: int | None, *, once: bool, tty: bool) -> None:
        self._sources = {descriptor: stream for stream, descriptor in sources.items()}
        self._unfinished = dict.fromkeys(sources, b"")
        self._due: dict[int, float] = {}  # when that of a stream has stood long enough to be kept as it is
        self._log = Log(os.path.join(folder, "log"))
        self._sink = sink
        self._input = bytearray()
        self._input_ends = False
        self._once = once  # the container's input ends with the first client that gave some
        self._tty = tty
        self._listener = _listen(folder)
        self._clients: dict[int, _Client] = {}
        self._poller = select.poll()
        for descriptor in (*self._sources, self._listener.fileno()):
            self._poller.register(descriptor, select.POLLIN)
        if sink is not None:
            os.set_blocking(sink, False)

    def pump(self, child: int) -> int:
        """Until the container has ended and all it said is kept; how it ended, as `waitpid` has it."""
        ended = os.pidfd_open(child)
        self._poller.register(ended, select.POLLIN)
        running = True
        while self._sources:
            # After the end only what is already in the pipes matters: with pid 1 everything that could write is gone,
            # except in plain-process mode, where a stray grandchild must not keep the container alive.
            ready = self._poller.poll(self._patience() if running else 0)
            if self._due:
                self._keep_standing()
            if not running and not ready:
                break
            for descriptor, events in ready:
                if descriptor == ended:
                    running = False
                    self._poller.unregister(ended)
                    self._stop_listening()
                else:
                    self._serve(descriptor, events)
        status = os.waitpid(child, 0)[1]
        for stream, rest in self._unfinished.items():
            self._log.write_piece(_NAMES[stream], rest)
        self._log.close()
        self._say_goodbye()
        return status

    def _serve(self, descriptor: int, events: int) -> None:
        if descriptor == self._sink and events & (select.POLLOUT | select.POLLERR):
            self._pass_input()
        if descriptor in self._sources and events & ~select.POLLOUT:
            self._take_output(descriptor)
        elif descriptor == self._listener.fileno():
            client = _Client(self._listener.accept()[0])
            self._clients[client.descriptor] = client
            self._attend_client(client)
        elif descriptor in self._clients:
            client = self._clients[descriptor]
            if events & ~select.POLLOUT:
                self._hear(client)
            else:
                client.flush()
                self._attend_client(client)
                self._attend_sources()

    def _take_output(self, descriptor: int) -> None:
        stream = self._sources[descriptor]
        try:
            data = os.read(descriptor, _READ_BYTES)
        except OSError:
            data = b""  # a terminal nobody is left in
        if not data:
            self._poller.unregister(descriptor)
            del self._sources[descriptor]
            return
        rest = self._unfinished[stream] = self._log.write_lines(_NAMES[stream], self._unfinished[stream] + data)
        if not rest:
            self._due.pop(stream, None)
        elif stream not in self._due or b"\n" in data:
            self._due[stream] = time.monotonic() + _STANDING_SECONDS
        for client in self._clients.values():
            if client.wants == stream:
                client.send(data)
                self._attend_client(client)
        self._attend_sources()

    def _keep_standing(self) -> None:
        now = time.monotonic()
        for stream in [stream for stream, due in self._due.items() if due <= now]:
            self._log.write_piece(_NAMES[stream], self._unfinished[stream])
            self._unfinished[stream] = b""
            del self._due[stream]

    def _hear(self, client: _Client) -> None:
        message = client.receive()
        if message is None:
            self._let_go(client)
        elif client.wants == 0:
            client.wants, client.speaks = message[0], message[1:] == b"i"
        elif message[:1] == bytes([INPUT]) and client.speaks and self._sink is not None:
            self._input += message[1:]
            self._pass_input()
        elif message[:1] == bytes([INPUT_ENDS]):
            self._end_input(client)
        elif message[:1] == bytes([SIZE]) and self._tty and self._sink is not None:
            fcntl.ioctl(self._sink, termios.TIOCSWINSZ, message[1:9].ljust(8, b"\0"))

    def _pass_input(self) -> None:
        if self._sink is None:
            return
        try:
            del self._input[: os.write(self._sink, self._input[:_READ_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            self._input.clear()  # nobody reads it any more
        # A terminal is read and written through one descriptor.
        if self._sink in self._sources:
            self._attend_sources()
        else:
            self._attend(self._sink, select.POLLOUT if self._input else 0)
        if self._input_ends and not self._input:
            os.close(self._sink)
            self._sink = None
        for client in self._clients.values():
            self._attend_client(client)

    def _end_input(self, client: _Client) -> None:
        """A terminal has no end of input that could be passed on: whoever types it means the program to see it."""
        if client.speaks and self._once and not self._tty:
            self._input_ends = True
            self._pass_input()

    def _let_go(self, client: _Client) -> None:
        self._attend(client.descriptor, 0)
        del self._clients[client.descriptor]
        client.close()
        self._attend_sources()
        self._end_input(client)

    def _attend_client(self, client: _Client) -> None:
        # One that sends more than the container reads waits: its messages stay in its socket.
        hearing = select.POLLIN if len(self._input) < _BACKLOG_BYTES or not client.speaks else 0
        self._attend(client.descriptor, hearing | (select.POLLOUT if client.backlog else 0))

    def _attend_sources(self) -> None:
        held = {client.wants for client in self._clients.values() if client.behind}
        for descriptor, stream in self._sources.items():
            writing = select.POLLOUT if descriptor == self._sink and self._input else 0
            self._attend(descriptor, writing | (0 if stream in held else select.POLLIN))

    def _patience(self) -> int | None:
        """Milliseconds to wait at most: somebody who is behind is looked after, and so is an unfinished line."""
        behind = [client for client in self._clients.values() if client.behind]
        for client in behind:
            if time.monotonic() - client.heard_at > _PATIENCE_SECONDS:
                self._let_go(client)
                self._attend_sources()
        waits = [1000] if behind else []
        if self._due:
            waits.append(max(0, int(1000 * (min(self._due.values()) - time.monotonic())) + 1))
        return min(waits, default=None)

    def _attend(self, descriptor: int, events: int) -> None:
        if events:
            self._poller.register(descriptor, events)
            return
        try:
            self._poller.unregister(descriptor)
        except KeyError:
            pass

    def _stop_listening(self) -> None:
        self._poller.unregister(self._listener.fileno())
        self._listener.close()

    def _say_goodbye(self) -> None:
        self._listener.close()  # still open where the outputs ended before the container did
        for client in self._clients.values():
            client.flush_and_close()


class _Client:
    """Somebody attached. `wants` is 0 until it has said which output it is here for."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connection = connection
        self.descriptor = connection.fileno()
        self.wants = 0
        self.speaks = False
        self.backlog: deque[bytes] = deque()
        self._size = 0
        self.heard_at = time.monotonic()

    @property
    def behind(self) -> bool:
        return self._size > _BACKLOG_BYTES

    def send(self, data: bytes) -> None:
        self.backlog.append(data)
        self._size += len(data)
        self.flush()

    def flush(self) -> None:
        """As much as it takes now."""
        while self.backlog:
            try:
                self._connection.send(self.backlog[0])
            except BlockingIOError:
                return
            except OSError:
                self.backlog.clear()  # gone: its end is read in a moment
                self._size = 0
                return
            self._size -= len(self.backlog.popleft())
            self.heard_at = time.monotonic()

    def receive(self) -> bytes | None:
        try:
            return self._connection.recv(_READ_BYTES + 1) or None
        except OSError:
            return None

    def flush_and_close(self) -> None:
        """A moment for what it has not read yet: the container has ended, and nobody waits for us but the agent."""
        self._connection.settimeout(1.0)
        self.flush()
        self.close()

    def close(self) -> None:
        self._connection.close()


class Log:
    """Lines as `<time> <stream> <F|P> <text>`; `log` is the newest file, `log.1` the one before, at most so many."""

    def __init__(self, path: str, file_bytes: int = LOG_BYTES) -> None:
        self._path = path
        self._file_bytes = file_bytes  # of one file, before the next is begun
        self._size = 0
        self._open()

    def write_lines(self, stream: bytes, data: bytes) -> bytes:
        """Log whole lines (and full buffers, marked partial); return what is still unfinished."""
        *lines, rest = data.split(b"\n")
        now = stamp()
        entries = []
        for line in lines:
            while len(line) > _LINE_BYTES:
                entries.append(b"%b %b P %b\n" % (now, stream, line[:_LINE_BYTES]))
                line = line[_LINE_BYTES:]
            entries.append(b"%b %b F %b\n" % (now, stream, line))
        while len(rest) > _LINE_BYTES:
            entries.append(b"%b %b P %b\n" % (now, stream, rest[:_LINE_BYTES]))
            rest = rest[_LINE_BYTES:]
        self._write(b"".join(entries))
        return rest

    def write_piece(self, stream: bytes, piece: bytes) -> None:
        """Log what is unfinished: the rest of its line comes later, or never."""
        if piece:
            self._write(b"%b %b P %b\n" % (stamp(), stream, piece))

    def close(self) -> None:
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        self._size += len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
            if self._size > self._file_bytes:
                self._rotate()
        except OSError:
            pass  # a full disk loses output; it must not block or end the container

    def _rotate(self) -> None:
        for number in range(LOG_FILES - 1, 0, -1):
            older = self._path if number == 1 else f"{self._path}.{number - 1}"
            if os.path.exists(older):
                os.rename(older, f"{self._path}.{number}")
        # The next one first: where none can be made, there is still a file to write to, and to close.
        full = self._file
        self._open()
        os.close(full)

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = 0


def stamp() -> bytes:
    """RFC 3339 with nanoseconds, as in the logs of other container engines."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return b"%b.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), nanoseconds)


def _listen(folder: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.unlink(os.path.join(folder, ATTACH_SOCKET))  # of a start that came to nothing
    except FileNotFoundError:
        pass
    try:
        # Through the descriptor: a socket's path may have 107 bytes only.
        listener.bind(f"/proc/self/fd/{directory}/{ATTACH_SOCKET}")
    finally:
        os.close(directory)
    listener.listen(16)
    listener.setblocking(False)
    return listener
