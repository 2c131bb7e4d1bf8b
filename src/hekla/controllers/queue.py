"""Queues: whether they take jobs, and that the two everything rests on exist.

`decide_state` is the table of states; closing and opening pass down the tree of queues by annotation, so that each
queue is reconciled on its own. Another annotation keeps what cannot be done yet: a queue that is told to open below a
closed parent opens with it, unless it is told to close before.
"""

from __future__ import annotations

import asyncio

from hekla.api.batch import JobAction
from hekla.api.kinds import COMMAND, QUEUE, Obj
from hekla.api.meta import Key, annotations_of, key_of, name_of, namespace_of, revision_of, uid_of
from hekla.api.scheduling import DEFAULT_QUEUE, ROOT_QUEUE, QueueState
from hekla.client.informer import Update
from hekla.client.recorder import NORMAL, WARNING, Recorder
from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.controllers.runner import Runner
from hekla.controllers.sources import QUEUE_INDEX, Sources
from hekla.controllers.targets import commands_for, drop_strays
from hekla.errors import AlreadyExists, NotFound

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
OPENS_WITH_PARENT = "hekla.dev/opens-with-parent"
_DEFAULTS: dict[str, Obj] = {
    ROOT_QUEUE: {"reclaimable": False, "weight": 1},
    DEFAULT_QUEUE: {"reclaimable": True, "weight": 1},
}
_SHUT = (QueueState.CLOSED, QueueState.CLOSING)
# parity: upstream tells it of a queue that its fifteenth try, each after twice the pause, could not open.
_TOLD_AFTER_SECONDS = 163.8


def decide_state(state: str, action: str, groups: int) -> str:
    """The state after `action` for a queue with `groups` PodGroups, finished ones included."""
    if action == JobAction.OPEN_QUEUE:
        return QueueState.OPEN
    shut = QueueState.CLOSING if groups else QueueState.CLOSED
    if action == JobAction.CLOSE_QUEUE:
        return QueueState.CLOSED if state == QueueState.CLOSED else shut
    if state == QueueState.CLOSING:
        return shut
    return state or QueueState.OPEN


class QueueController:
    def __init__(self, client: Client, sources: Sources, *, clock: Clock, recorder: Recorder) -> None:
        self._client = client
        self._queues = sources.queues
        self._groups = sources.groups
        self._commands = sources.commands
        self._clock = clock
        self._recorder = recorder
        self._to_tell: dict[Key, float] = {}
        self._settled = asyncio.Event()
        self.runner = Runner("queue", self.reconcile)
        sources.queues.subscribe(self._queue_changed)
        sources.groups.subscribe(self._group_changed)
        sources.commands.subscribe(self._command_changed)

    def start(self) -> None:
        """See to `root` and `default`, even if nobody has made them yet. Called when the informers have synced."""
        for name in _DEFAULTS:
            self.runner.enqueue(Key("", name))

    async def settled(self) -> None:
        """Wait until `root` and `default` have a state: before that, admission takes no Job."""
        await self._settled.wait()

    async def reconcile(self, key: Key) -> float | None:
        queue = self._queues.get(key.name)
        await drop_strays(self._client, self._commands, QUEUE, key, queue)
        if queue is None:
            self._to_tell.pop(key, None)
            await self._create_default(key)
            return None
        if key.name != ROOT_QUEUE and not (queue.get("spec") or {}).get("parent"):
            await self._patch(key, queue, {"spec": {"parent": ROOT_QUEUE}})
            return None
        command = await self._next_command(queue)
        action = str(command.get("action")) if command else self._inherited_action(queue)
        if command and action == JobAction.CLOSE_QUEUE:
            # Whoever wanted it open has changed their mind.
            self._to_tell.pop(key, None)
        if command and action == JobAction.CLOSE_QUEUE and OPENS_WITH_PARENT in annotations_of(queue):
            queue = await self._annotate(key, queue, {OPENS_WITH_PARENT: None, CLOSED_BY_PARENT: "false"})
        done = await self._carry_out(key, queue, action)
        if command and done:
            await self._finish(key, command)
        return self._tell_of_waiting(key, queue)

    async def _create_default(self, key: Key) -> None:
        if key.name not in _DEFAULTS:
            return
        queue = {
            "apiVersion": QUEUE.api_version,
            "kind": QUEUE.kind,
            "metadata": {"name": key.name},
            "spec": _DEFAULTS[key.name],
        }
        try:
            self.runner.wrote(key, self._queues, await self._client.create(QUEUE, queue))
        except AlreadyExists:
            return

    async def _carry_out(self, key: Key, queue: Obj, action: str) -> bool:
        """Write the state `action` leads to, if any; False when nothing tells of the action but its Command.

        That one waits then, and those after it: a queue told to open and to close again is not as if told neither.
        """
        state = str((queue.get("status") or {}).get("state") or "")
        if action == JobAction.OPEN_QUEUE and state in _SHUT and self._parent_state(queue) in _SHUT:
            self._to_tell.setdefault(key, self._clock.monotonic() + _TOLD_AFTER_SECONDS)
            if state == QueueState.CLOSING:
                # Admission refuses every change of a queue that is closing, even a note on it.
                await self._carry_out(key, queue, JobAction.SYNC_QUEUE)
                return False
            await self._annotate(key, queue, {OPENS_WITH_PARENT: "true"})
            return True
        if action == JobAction.CLOSE_QUEUE and key.name == ROOT_QUEUE:
            return True
        # Who closed it is noted before it is closed, and forgotten after it is open: a controller that dies in between
        # finds what is left to do.
        closed_with_parent = action == JobAction.CLOSE_QUEUE and self._parent_state(queue) in _SHUT
        if closed_with_parent and state not in _SHUT:
            queue = await self._annotate(key, queue, {CLOSED_BY_PARENT: "true"})
        after = decide_state(state, action, self._groups.count(QUEUE_INDEX, key.name))
        if after != state:
            await self._write_state(key, queue, after)
        if action == JobAction.CLOSE_QUEUE and state not in _SHUT:
            self._recorder.event(queue, NORMAL, JobAction.CLOSE_QUEUE, "Close queue succeed")
        # parity: nothing is noted on a queue that was open all the time.
        if action == JobAction.OPEN_QUEUE and (state in _SHUT or CLOSED_BY_PARENT in annotations_of(queue)):
            await self._annotate(key, queue, {OPENS_WITH_PARENT: None, CLOSED_BY_PARENT: "false"})
        return True

    def _inherited_action(self, queue: Obj) -> str:
        """What the parent's state asks of a queue: shut with it, open with it if shut by it or told to since."""
        state = str((queue.get("status") or {}).get("state") or "")
        parent = self._parent_state(queue)
        if parent in _SHUT and state and state not in _SHUT:
            return JobAction.CLOSE_QUEUE
        notes = annotations_of(queue)
        if parent == QueueState.OPEN and "true" in (notes.get(CLOSED_BY_PARENT), notes.get(OPENS_WITH_PARENT)):
            return JobAction.OPEN_QUEUE
        return JobAction.SYNC_QUEUE

    def _tell_of_waiting(self, key: Key, queue: Obj) -> float | None:
        """Tell, once it is time, that a queue still waits for its parent to be opened; the seconds until then."""
        due = self._to_tell.get(key)
        if due is None:
            return None
        remaining = due - self._clock.monotonic()
        waits = self._parent_state(queue) in _SHUT
        if waits and remaining > 0:
            return remaining
        del self._to_tell[key]
        if waits:
            text = (
                f"Failed to open queue {key.name} because its parent queue {queue['spec']['parent']} is closing or "
                "closed. Open the parent queue first."
            )
            action = JobAction.OPEN_QUEUE
            self._recorder.event(queue, WARNING, action, f"{action} queue failed for {text}")
        return None

    def _parent_state(self, queue: Obj) -> str:
        parent = self._queues.get(str((queue.get("spec") or {}).get("parent") or ""))
        return str(((parent or {}).get("status") or {}).get("state") or "")

    async def _next_command(self, queue: Obj) -> Obj | None:
        """The oldest Command that is still there: one carried out before our copy heard of it must not be again."""
        for command in sorted(commands_for(self._commands, QUEUE, queue), key=revision_of):
            live = await self._client.find(COMMAND, name_of(command), namespace_of(command))
            if live is not None and uid_of(live) == uid_of(command):
                return command
        return None

    async def _finish(self, key: Key, command: Obj) -> None:
        try:
            await self._client.delete(COMMAND, name_of(command), namespace_of(command), uid=uid_of(command))
        except NotFound:
            return
        self.runner.deleted(key, self._commands, key_of(command), uid_of(command))

    async def _annotate(self, key: Key, queue: Obj, notes: dict[str, str | None]) -> Obj:
        held = annotations_of(queue)
        changed = {note: value for note, value in notes.items() if held.get(note) != value}
        return await self._patch(key, queue, {"metadata": {"annotations": changed}}) if changed else queue

    async def _write_state(self, key: Key, queue: Obj, state: str) -> None:
        # The scheduler writes `allocated` beside it: only our own field is sent.
        # parity: upstream's type always writes a reservation.
        status = {"state": str(state), "reservation": {}}
        # Decided on this revision of the queue and no other: a Command may have been carried out meanwhile.
        fence = {"uid": uid_of(queue), "resourceVersion": queue["metadata"]["resourceVersion"]}
        patch = {"metadata": fence, "status": status}
        written = await self._client.patch(QUEUE, key.name, patch, subresource="status")
        self.runner.wrote(key, self._queues, written)

    async def _patch(self, key: Key, queue: Obj, patch: Obj) -> Obj:
        metadata = {"uid": uid_of(queue), **patch.get("metadata", {})}
        written = await self._client.patch(QUEUE, key.name, {**patch, "metadata": metadata})
        self.runner.wrote(key, self._queues, written)
        return written

    def _queue_changed(self, update: Update) -> None:
        defaults = [self._queues.get(name) for name in _DEFAULTS]
        if all(queue is not None and (queue.get("status") or {}).get("state") for queue in defaults):
            self._settled.set()
        self.runner.enqueue(key_of(update.obj))
        name = name_of(update.obj)
        for child in self._queues.all():
            if (child.get("spec") or {}).get("parent") == name:
                self.runner.enqueue(key_of(child))

    def _group_changed(self, update: Update) -> None:
        """What a queue asks of its groups is how many there are."""
        left, joined = _queue_of(update.old), _queue_of(update.new)
        for name in (left, joined):
            if left != joined and name is not None:
                self.runner.enqueue(Key("", name))

    def _command_changed(self, update: Update) -> None:
        target = update.obj.get("target") or {}
        if QUEUE.owns_reference(target):
            self.runner.enqueue(Key("", str(target.get("name"))))


def _queue_of(group: Obj | None) -> str | None:
    return None if group is None else str((group.get("spec") or {}).get("queue") or "")
