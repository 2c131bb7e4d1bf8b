"""Gives a case's steps to a cluster, as a person with kubectl and vcctl would, and records what becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hekla.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    CRON_JOB,
    EVENT,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    QUEUE,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
    Obj,
)
from hekla.client.informer import Informer, Update
from hekla.client.kubeconfig import client_from_files
from hekla.client.rest import Client
from tests.eventually import at_rest, until
from tests.parity.normal import command_output, events, history, normal_object
from tests.parity.placeholders import Placeholders, Seen

HERE = Path(__file__).parent
_WATCHED = (
    JOB, CRON_JOB, COMMAND, POD_GROUP, QUEUE, JOB_FLOW, JOB_TEMPLATE,
    POD, SERVICE, CONFIG_MAP, SECRET, PERSISTENT_VOLUME_CLAIM, NETWORK_POLICY, EVENT,
)  # fmt: skip
_WAITED_FOR = {
    "job": "jobs", "queue": "queues", "pod": "pods", "jobflow": "jobflows", "podgroup": "podgroups",
    "command": "commands", "service": "services", "cronjob": "cronjobs",
}  # fmt: skip
_QUIET_SECONDS = {"D": 1.0, "E": 4.0}
_PATIENCE_SECONDS = 45.0
_REST_SECONDS = 60.0


@dataclass
class Case:
    """A recording, of which the steps are what has to be done again."""

    recorded: Obj

    @property
    def name(self) -> str:
        return str(self.recorded["case"])

    @property
    def queues(self) -> list[str]:
        made = [obj for step in self.recorded["steps"] for obj in step.get("create", ())]
        return [obj["metadata"]["name"] for obj in made if obj.get("kind") == "Queue" and "name" in obj["metadata"]]

    @property
    def quiet_seconds(self) -> float:
        return _QUIET_SECONDS.get(self.recorded["group"], 3.0)


def recorded_cases() -> dict[str, Case]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [Case(yaml.load(path.read_text(), loader)) for path in sorted((HERE / "recordings").glob("*.yaml"))]
    return {case.name: case for case in found}


Agrees = Callable[[Case, Obj], bool]


@dataclass
class Target:
    """The cluster that is tried, and everything seen of it."""

    client: Client
    kubeconfig: Path
    programs: dict[str, str]
    agrees: Agrees
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    live: dict[str, dict[str, dict[str, Obj]]] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    has_accounts: bool = True

    def hear(self, plural: str, update: Update) -> None:
        obj = update.obj
        space, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        of_kind = self.live.setdefault(space, {}).setdefault(plural, {})
        change = "DELETED" if update.new is None else "MODIFIED"
        if update.new is None:
            of_kind.pop(name, None)
        else:
            of_kind[name] = obj
        self.seen.setdefault(space, []).append((plural, change, obj))

    async def run(self, program: str, *words: str, stdin: str = "") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            self.programs[program],
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        out, err = await process.communicate(stdin.encode())
        return process.returncode or 0, out.decode().rstrip(), err.decode().strip()


@contextlib.asynccontextmanager
async def watch_cluster(
    kubeconfig: Path, programs: dict[str, str], agrees: Agrees = lambda case, found: True
) -> AsyncIterator[Target]:
    """`agrees` says whether a case has come out as it should: what is at rest and does not is given more time."""
    client = client_from_files([kubeconfig])
    target = Target(client, kubeconfig, programs, agrees)
    async with asyncio.TaskGroup() as tasks:
        watches = [tasks.create_task(_follow(target, kind)) for kind in _WATCHED]
        target.nodes = [node["metadata"]["name"] for node in await client.find_all(NODE)]
        target.has_accounts = await client.find(SERVICE_ACCOUNT, "default", "default") is not None
        fixtures = (HERE / "fixtures.yaml").read_text()
        for one in yaml.safe_load(fixtures):
            await target.run("kubectl", "create", "-f", "-", stdin=json.dumps(one))
        try:
            yield target
        finally:
            for one in watches:
                one.cancel()
    await client.close()


async def _follow(target: Target, kind: Kind) -> None:
    informer = Informer(target.client, kind)
    informer.subscribe(lambda update: target.hear(kind.plural, update))
    await informer.run()


async def record_all(target: Target, cases: Iterable[Case], *, at_once: int) -> dict[str, Obj]:
    """What the target does with each case, in the form of the recordings."""
    turns = asyncio.Semaphore(at_once)

    async def one(case: Case) -> tuple[str, Obj]:
        async with turns:
            return case.name, await Replay(case, target).record()

    return dict(await asyncio.gather(*map(one, cases)))


class Replay:
    def __init__(self, case: Case, target: Target) -> None:
        self._case = case
        self._target = target
        self._namespace = case.name
        self._answers: list[Obj] = []

    async def record(self) -> Obj:
        await self._target.run("kubectl", "create", "namespace", self._namespace)
        await self._until(self._is_ready)
        for number, step in enumerate(self._case.recorded["steps"], 1):
            ((verb, argument),) = step.items()
            await getattr(self, f"_{verb}")(number, argument)
        try:
            result = await self._settle()
        except AssertionError:
            result = {**await self._result(), "note": "still changing when it was recorded"}
        await self._target.run("kubectl", "delete", "namespace", self._namespace, "--wait=false")
        for queue in reversed(self._case.queues):
            await self._target.run("kubectl", "delete", "queue", queue, "--wait=false")
        return _without_nothing(result)

    async def _result(self) -> Obj:
        seen, live = self._look()
        names = Placeholders(seen, self._target.nodes)
        objects = {
            plural: {names.text(name): normal_object(plural, obj, names) for name, obj in sorted(found.items())}
            for plural, found in live.items()
            if found and plural != "events"
        }
        answers = [names.value(answer) for answer in self._answers]
        return {"answers": answers, "objects": objects, "history": history(seen, names), "events": events(seen, names)}

    def _look(self) -> tuple[list[Seen], dict[str, dict[str, Obj]]]:
        """All that was seen of this case, and what there is now: its namespace's, and the queues it made."""
        queues, target = self._case.queues, self._target
        seen = list(target.seen.get(self._namespace, ()))
        seen += [one for one in target.seen.get("", ()) if one[2]["metadata"]["name"] in queues]
        seen += [
            one
            for one in target.seen.get("default", ())
            if one[0] == "events" and one[2]["involvedObject"].get("name") in queues
        ]
        live = {plural: dict(found) for plural, found in target.live.get(self._namespace, {}).items()}
        live.get("configmaps", {}).pop("kube-root-ca.crt", None)
        of_cluster = target.live.get("", {}).get("queues", {})
        live["queues"] = {name: of_cluster[name] for name in queues if name in of_cluster}
        return seen, live

    async def _settle(self) -> Obj:
        """What there is when nothing but times has changed for a while, and it is as recorded or time is up."""
        quiet = self._case.quiet_seconds
        return await at_rest(self._result, quiet=quiet, seconds=_REST_SECONDS, every=0.4, expected=self._agrees)

    async def _agrees(self, found: Obj) -> bool:
        return self._target.agrees(self._case, _without_nothing(found))

    async def _is_ready(self) -> bool:
        """No pod can be made before its namespace has an account, on a cluster that has any."""
        if self._target.has_accounts:
            return await self._target.client.find(SERVICE_ACCOUNT, "default", self._namespace) is not None
        return await self._target.client.find(NAMESPACE, self._namespace) is not None

    async def _until(self, holds: Callable[[], Awaitable[bool]], seconds: float = _PATIENCE_SECONDS) -> bool:
        try:
            return await until(holds, seconds=seconds)
        except TimeoutError:
            return False

    async def _kubectl(self, number: int, *words: str, stdin: str = "") -> None:
        self._answer(number, *await self._target.run("kubectl", "-n", self._namespace, *words, stdin=stdin))

    def _answer(self, number: int, code: int, out: str, err: str) -> None:
        # A newer kubectl than the recorder's names the namespace, too.
        out = re.sub(r" deleted from \S+ namespace$", " deleted", out)
        answer = {"step": number, "exit": code, "output": out, "error": err}
        self._answers.append({key: value for key, value in answer.items() if value})

    async def _create(self, number: int, objects: list[Obj]) -> None:
        for obj in objects:
            await self._kubectl(number, "create", "-f", "-", stdin=json.dumps(obj))

    async def _patch(self, number: int, how: Obj) -> None:
        part = ["--subresource", how["subresource"]] if how.get("subresource") else []
        words = ["patch", how["resource"], how["name"], "--type", how.get("type", "merge"), *part]
        await self._kubectl(number, *words, "-p", json.dumps(how["patch"]))

    async def _delete(self, number: int, what: Obj) -> None:
        await self._kubectl(number, "delete", what["resource"], what["name"], "--wait=false", *what.get("flags", ()))

    async def _command(self, number: int, what: Obj) -> None:
        kind, name = (QUEUE, what["queue"]) if "queue" in what else (JOB, what["job"])
        found = await self._target.client.get(kind, name, self._namespace if kind.namespaced else None)
        target = {
            "apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": found["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        metadata: Obj = {"generateName": f"{name}-{what['action'].lower()}-"}
        if kind is JOB:
            metadata["ownerReferences"] = [target]
        command = {"apiVersion": COMMAND.api_version, "kind": COMMAND.kind, "action": what["action"]}
        body = json.dumps({**command, "target": target, "metadata": metadata})
        await self._kubectl(number, "create", "-f", "-", stdin=body)

    async def _sleep(self, _number: int, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _vcctl(self, number: int, words: list[str]) -> None:
        filled = [word.replace("{ns}", self._namespace) for word in words]
        code, out, err = await self._target.run("vcctl", *filled)
        self._answer(number, code, command_output(out), err)

    async def _wait(self, number: int, what: Obj) -> None:
        async def holds() -> bool:
            return self._holds(what)

        if not await self._until(holds, what.get("timeout", _PATIENCE_SECONDS)):
            self._answers.append({"step": number, "error": "did not come about"})

    def _holds(self, what: Obj) -> bool:
        seen, live = self._look()
        phases = [what["phase"]] if isinstance(what.get("phase"), str) else what.get("phase")
        if "event" in what:
            told = [obj for plural, _, obj in seen if plural == "events" and obj.get("reason") == what["event"]]
            return any(what.get("message", "") in obj.get("message", "") for obj in told)
        if "pods" in what:
            kept = [pod for pod in live.get("pods", {}).values() if not pod["metadata"].get("deletionTimestamp")]
            return sum(1 for pod in kept if pod["status"].get("phase") in phases) >= what["pods"]
        ((kind, plural),) = [pair for pair in _WAITED_FOR.items() if pair[0] in what]
        name, found = what[kind], live.get(plural, {})
        obj = found.get(name)
        if plural == "podgroups":
            obj = next((one for full, one in found.items() if full.startswith(name)), None)
        if obj is None or what.get("gone"):
            return obj is None and bool(what.get("gone"))
        lives = {one["metadata"]["uid"] for of, _, one in seen if of == plural and one["metadata"]["name"] == name}
        status = obj.get("status") or {}
        if len(lives) < what.get("incarnation", 0) or status.get("retryCount", 0) < what.get("retry", 0):
            return False
        state = status.get("state")
        phase = status.get("phase") if plural in ("pods", "podgroups") else state
        return phases is None or (phase.get("phase") if isinstance(phase, dict) else phase) in phases


def _without_nothing(result: Obj) -> Obj:
    return {key: value for key, value in result.items() if value}
