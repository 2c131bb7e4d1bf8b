"""Commands for a Job: suspend, resume, restart and the like, each carried out once.

Upstream deletes a Command before acting on it, so that one is lost when the controller dies in between. Here a Command
that will kill is first noted with the job's version, then acted upon, then deleted: a version that has grown since says
that it was done.
"""

from __future__ import annotations

from hekla.api.batch import JOB_VERSION
from hekla.api.kinds import COMMAND, JOB, Obj
from hekla.api.meta import annotations_of, count_of, is_deleting, key_of, name_of, namespace_of, revision_of, uid_of
from hekla.client.informer import Informer
from hekla.client.recorder import NORMAL, Recorder
from hekla.client.rest import Client
from hekla.controllers.job.lifecycle import Operation, operation
from hekla.controllers.job.model import Job
from hekla.controllers.runner import Runner
from hekla.controllers.targets import commands_for
from hekla.errors import Conflict, NotFound


class JobCommands:
    def __init__(self, client: Client, commands: Informer, runner: Runner, recorder: Recorder) -> None:
        self._client = client
        self._commands = commands
        self._runner = runner
        self._recorder = recorder

    async def next(self, job: Job) -> Obj | None:
        """The oldest Command that has not been carried out, noted as begun; None when there is none."""
        waiting = [one for one in commands_for(self._commands, JOB, job.obj) if not is_deleting(one)]
        if not waiting:
            return None
        for command in sorted(waiting, key=_order):
            begun = command if _is_begun(command) else await self._begin(job, command)
            if begun is None:
                continue
            version = count_of(annotations_of(begun).get(JOB_VERSION, ""))
            if version is not None and version < job.version:
                await self.finish(job, begun)
                continue
            return begun
        return None

    async def finish(self, job: Job, command: Obj) -> None:
        try:
            await self._client.delete(COMMAND, name_of(command), namespace_of(command), uid=uid_of(command))
        except NotFound:
            return
        self._runner.deleted(job.key, self._commands, key_of(command), uid_of(command))

    async def _begin(self, job: Job, command: Obj) -> Obj | None:
        """The Command, noted as begun now or, where our copy is older, before; None when it is gone."""
        action = str(command.get("action") or "")
        begun = command
        if operation(job.phase, action) not in (Operation.SYNC, Operation.KILL_TARGET):
            # The revision guards what was noted first: with a later version it would be carried out again.
            guard = {"uid": uid_of(command), "resourceVersion": str(revision_of(command))}
            note = {"metadata": {**guard, "annotations": {JOB_VERSION: str(job.version)}}}
            try:
                begun = await self._client.patch(COMMAND, name_of(command), note, namespace_of(command))
            except NotFound:
                return None
            except Conflict:
                found = await self._client.find(COMMAND, name_of(command), namespace_of(command))
                if found is None or uid_of(found) != uid_of(command):
                    return None
                if _is_begun(found):
                    return found
                raise
        message = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
        self._recorder.event(job.obj, NORMAL, "CommandIssued", message)
        return begun


def _is_begun(command: Obj) -> bool:
    return bool(annotations_of(command).get(JOB_VERSION))


def _order(command: Obj) -> tuple[bool, int]:
    """What was begun first, then as they came: a time of creation cannot tell those of one second apart."""
    return not _is_begun(command), revision_of(command)
