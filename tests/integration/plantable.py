"""Faults that might be in our code, each a change of one place: what `planted` plants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Planted:
    """In `file`, `right` is what it says and `wrong` what it will say."""

    name: str
    file: str
    right: str
    wrong: str


FAULTS: tuple[Planted, ...] = (
    Planted(
        "a restart counts two retries",
        "controllers/job/lifecycle.py",
        "retries=1 if target is JobPhase.RESTARTING else 0",
        "retries=2 if target is JobPhase.RESTARTING else 0",
    ),
    Planted(
        "pods are deleted before the decision is written",
        "controllers/job/controller.py",
        'await self._write.status(job, {**status, "version": job.version + 1}, killed=True)',
        "await self._write.delete_pods(job, targets)\n"
        '        await self._write.status(job, {**status, "version": job.version + 1}, killed=True)',
    ),
    Planted(
        "own writes are not waited for",
        "controllers/runner.py",
        "if informer.revision < revision:",
        "if False:",
    ),
    Planted(
        "another job's pod is taken for one's own",
        "controllers/job/writer.py",
        "            if found is None or not is_owned_by(found, job.obj):\n",
        "            if found is None:\n",
    ),
    Planted(
        "what a kill left over is left",
        "controllers/job/pods.py",
        "delete = [pod for pod in staying if pod.marked or is_left_over(job, pod)]",
        "delete = [pod for pod in staying if pod.marked]",
    ),
    Planted(
        "a binding that was refused is remembered as made",
        "scheduler/resting.py",
        "self._cache.forget(uid)\n",
        "pass\n",
    ),
    Planted(
        "a binding whose answer was lost gives its room back at once",
        "scheduler/resting.py",
        "delay = min(self._period * 2 ** min(failures - 1, 10), _LONGEST_SECONDS)",
        "delay = 0.0",
    ),
    Planted(
        "the pod that gave rise to a restart is marked first",
        "controllers/job/controller.py",
        "await self._write.status(scene.job, status, killed=True)\n"
        "        await self._write.mark_pods(scene.job, [pod for pod in targets if pod.uid == trigger])",
        "await self._write.mark_pods(scene.job, [pod for pod in targets if pod.uid == trigger])\n"
        "        await self._write.status(scene.job, status, killed=True)",
    ),
    Planted(
        "an object made again is taken for the old one",
        "client/informer.py",
        "if old is not None and uid_of(old) != uid_of(obj):",
        "if False:",
    ),
    Planted(
        "changes that were missed are not listed again",
        "client/informer.py",
        "for key in [key for key in self._objects if key not in incoming]:",
        "for key in ():",
    ),
    Planted(
        "the room for a gang is not looked at",
        "apiserver/batches.py",
        'why = self.claims.take(self._node, needs) if self.claims is not None else ""',
        'why = ""',
    ),
    Planted(
        "a queue is closed before it is noted that its parent did it",
        "controllers/queue.py",
        'queue = await self._annotate(key, queue, {CLOSED_BY_PARENT: "true"})',
        "pass",
    ),
    Planted(
        "deletes do not say which object they mean",
        "client/rest.py",
        'preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}',
        "preconditions: dict[str, str] = {}",
    ),
    Planted(
        "what a gone owner leaves is not looked at",
        "local/builtins/garbage.py",
        "            for dependent in self._graph.dependents(item.uid):\n"
        "                self._queue.add(dependent.uid)\n"
        "        else:",
        "        else:",
    ),
    Planted(
        "pods of a gang come back from a refused binding one by one",
        "scheduler/binder.py",
        "self._resting.begin(pod.uid for pod in (*unplaced, *also))",
        "[self._resting.begin([pod.uid]) for pod in (*unplaced, *also) if not await asyncio.sleep(0.01)]",
    ),
    Planted(
        "a command of a queue is carried out from an old copy",
        "controllers/queue.py",
        "if live is not None and uid_of(live) == uid_of(command):",
        "if live is None or True:",
    ),
    Planted(
        "retries are forgotten when a restart is over",
        "controllers/job/status.py",
        '"retryCount": job.retry_count + retries,',
        '"retryCount": retries or (job.retry_count if phase == "Restarting" else 0),',
    ),
    Planted(
        "an event of the run before is answered",
        "controllers/job/events.py",
        "current = [pod for pod in pods if pod.version >= job.version and not pod.marked]",
        "current = [pod for pod in pods if not pod.marked]",
    ),
    Planted(
        "a delayed answer is not looked at when it is due",
        "controllers/job/controller.py",
        "self.runner.enqueue_after(job.key, decision.next_due)",
        "pass",
    ),
    Planted(
        "pods beyond the replicas stay",
        "controllers/job/pods.py",
        "surplus = [pod for pod in staying if pod.uid not in going and pod.index >= replicas.get(pod.task, 0)]",
        "surplus: list[Pod] = []",
    ),
    Planted(
        "another's object is taken for one's own",
        "controllers/job/objects.py",
        "if not is_owned_by(existing, job.obj) or is_deleting(existing):",
        "if is_deleting(existing):",
    ),
    Planted(
        "an object whose creation was not answered is taken for another's",
        "controllers/job/objects.py",
        "existing = await self._find(want)\n                if existing is None:\n                    raise",
        "raise",
    ),
    Planted(
        "the group of an ended job is left",
        "controllers/job/controller.py",
        "        await self._write.delete_group(job, scene.group)\n        records = _records(job)",
        "        records = _records(job)",
    ),
    Planted(
        "what plugins made is left when a job ends",
        "controllers/job/controller.py",
        "if scene.group is not None or any(name.startswith(_PLUGIN) for name in records):",
        "if False:",
    ),
    Planted(
        "counts are written with the phase only",
        "controllers/job/status.py",
        "return old != status",
        'return old["state"] != status["state"]',
    ),
    Planted(
        "a task does not wait for those it depends on",
        "controllers/job/pods.py",
        "return any(ready) if task.depends_on_any else all(ready)",
        "return True",
    ),
    Planted(
        "a command is deleted before it is carried out",
        "controllers/job/controller.py",
        "        # 5. Kill what has to go, or converge.\n",
        "        if command:\n            await self._commands.finish(job, command)\n",
    ),
    Planted(
        "a gang does not follow its job",
        "controllers/job/podgroup.py",
        'return {"spec": changed} if changed else None',
        "return None",
    ),
    Planted(
        "a queue does not open with its parent",
        "controllers/queue.py",
        'if parent == QueueState.OPEN and "true" in (notes.get(CLOSED_BY_PARENT), notes.get(OPENS_WITH_PARENT)):',
        "if False:",
    ),
    Planted(
        "a finished job is kept for ever by a controller that did not see it end",
        "controllers/garbage.py",
        "if update.new is not None and expiry(update.new) is not None:",
        "if update.new is not None and update.old is not None and expiry(update.new) is not None:",
    ),
    Planted(
        "a key that comes while it is worked on is lost",
        "client/workqueue.py",
        "        if key in self._waiting:\n            self._stand_in_line(key)\n",
        "        self._waiting.pop(key, None)\n",
    ),
    Planted(
        "what failed is not looked at again",
        "controllers/runner.py",
        "delay = self._queue.retry(key, at_least=asked or 0.0)",
        "delay = 0.0",
    ),
    Planted(
        "changes between an expired watch and the next are lost",
        "client/following.py",
        '            revision = ""\n        except',
        "            revision = [reached async for _, reached in source.listed()][-1]\n        except",
    ),
    Planted(
        "part of a gang is enough",
        "scheduler/plugins/gang.py",
        "return enough and _parts_hold(state, READY_STATUSES)",
        "return state.ready_pods > 0",
    ),
    Planted(
        "a pod on its way to a node does not count there",
        "scheduler/cache.py",
        "            self._assumed[pod.uid] = assumed\n            self._swap(before, assumed)\n",
        "            self._assumed[pod.uid] = assumed\n",
    ),
    Planted(
        "pods have to leave for one who finds no room all the same",
        "scheduler/displacing.py",
        "        if tiers.group_pipelined(state):\n            statement.commit()",
        "        if statement.steps:\n            statement.commit()",
    ),
    Planted(
        "gangs are broken to make room",
        "scheduler/plugins/gang.py",
        "            if left > 0:\n                allowed.append(resident)",
        "            allowed.append(resident)",
    ),
    Planted(
        "a pod of the run before counts for the gang",
        "scheduler/podreading.py",
        "if not name or (ended and form.metadata.deletion_timestamp)",
        "if not name",
    ),
    Planted(
        "a closed queue takes groups in",
        "scheduler/plugins/proportion.py",
        "if account.queue.state is not QueueState.OPEN:\n            return Vote.REJECT, not_open(account.queue)",
        "if False:\n            return Vote.REJECT, not_open(account.queue)",
    ),
)  # fmt: skip
