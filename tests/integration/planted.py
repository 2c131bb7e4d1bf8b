"""How well rehearsals see: faults planted in a copy of the sources, and how many seeds find each.

    python -m tests.integration.planted 40

rehearses forty seeds for each planted fault. One that no seed finds is a hole in the rehearsals. The sources themselves
are not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Planted:
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
        'await self._write.status(job, {**status, "version": job.version + 1}, killed=True)\n'
        "        self._waiting.pop(job.uid, None)\n"
        "        await self._write.delete_pods(job, targets)",
        "await self._write.delete_pods(job, targets)\n"
        '        await self._write.status(job, {**status, "version": job.version + 1}, killed=True)\n'
        "        self._waiting.pop(job.uid, None)",
    ),
    Planted(
        "a command that was carried out is carried out again",
        "controllers/job/commands.py",
        "if begun.isdigit() and int(begun) < job.version:",
        "if False:",
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
        "if found is None or not is_owned_by(found, job.obj):",
        "if found is None:",
    ),
    Planted(
        "another job's group is taken for one's own",
        "controllers/job/controller.py",
        "if group is not None and not is_owned_by(group, obj):",
        "if False:",
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
        'queue = await self._note_closed_by_parent(key, queue, "true")',
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
)  # fmt: skip


def found_by(fault: Planted, seeds: int) -> list[str]:
    """What the rehearsals said, one line for each seed that found it."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(_ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        file = sources / "hekla" / fault.file
        text = file.read_text()
        assert text.count(fault.right) == 1, f"{fault.name}: {fault.file} has changed"
        file.write_text(text.replace(fault.right, fault.wrong))
        program = [sys.executable, "-m", "tests.integration.rehearsal", "0", str(seeds)]
        environment = {**os.environ, "PYTHONPATH": str(sources)}
        done = subprocess.run(program, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
        if "seeds," not in done.stdout:
            raise RuntimeError(f"{fault.name}: {done.stderr[-2000:]}")
        return [line for line in done.stdout.splitlines() if line.startswith("seed ")]


def main(seeds: int, words: list[str]) -> int:
    missed = 0
    for fault in FAULTS:
        if all(word in fault.name for word in words):
            found = len(found_by(fault, seeds))
            missed += not found
            print(f"{found:4} of {seeds} seeds: {fault.name}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2:]))
