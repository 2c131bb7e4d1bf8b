"""Looking after one running attempt of a container: its postStart hook, then its probes, until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hekla.api.kinds import Obj
from hekla.client.recorder import WARNING, Recorder
from hekla.node.handlers import HandlerFailed, Handlers
from hekla.node.hooks.probes import Health, Probe, ProbeKind, Streak, read_probes

# A hook may take as long as it likes, its container's end aside; this only bounds what hangs for ever.
_HOOK_SECONDS = 24 * 3600.0


@dataclass
class Tender:
    """`tell` is called with every change of health, `condemn` when the container must go: reason, and its grace."""

    pod: Obj
    handlers: Handlers
    recorder: Recorder
    marker: Path  # of this attempt: there once the postStart hook has run
    health: Health
    tell: Callable[[Health], None]
    condemn: Callable[[str, float | None], None]

    async def run(self) -> None:
        """Until cancelled, or until there is nothing more to look after."""
        if not await self._after_start():
            return
        probes = read_probes(self.handlers.container)
        startup = probes.get(ProbeKind.STARTUP)
        if startup is not None and not self.health.started and not await self._until_started(startup):
            return
        ready = self.health.ready if ProbeKind.READINESS in probes else True
        self._change(Health(started=True, ready=ready))
        async with asyncio.TaskGroup() as tasks:
            if ProbeKind.READINESS in probes:
                tasks.create_task(self._follow_readiness(probes[ProbeKind.READINESS]))
            if ProbeKind.LIVENESS in probes:
                tasks.create_task(self._guard_liveness(probes[ProbeKind.LIVENESS]))

    async def _after_start(self) -> bool:
        hook = (self.handlers.container.get("lifecycle") or {}).get("postStart")
        if not hook or self.marker.exists():
            return True
        try:
            await self.handlers.carry_out(hook, _HOOK_SECONDS)
        except HandlerFailed as error:
            self.recorder.event(self.pod, WARNING, "FailedPostStartHook", f"PostStartHook failed: {error}")
            self.condemn("FailedPostStartHook", None)
            return False
        self.marker.touch()
        return True

    async def _until_started(self, probe: Probe) -> bool:
        streak = Streak()
        await asyncio.sleep(probe.initial_delay)
        while True:
            streak = streak.then(await self._try(probe))
            verdict = streak.verdict(probe)
            if verdict is False:
                self._condemn(probe)
            if verdict is not None:
                return verdict
            await asyncio.sleep(probe.period)

    async def _follow_readiness(self, probe: Probe) -> None:
        streak = Streak()
        await asyncio.sleep(probe.initial_delay)
        while True:
            streak = streak.then(await self._try(probe))
            verdict = streak.verdict(probe)
            if verdict is not None:
                self._change(replace(self.health, ready=verdict))
            await asyncio.sleep(probe.period)

    async def _guard_liveness(self, probe: Probe) -> None:
        streak = Streak()
        await asyncio.sleep(probe.initial_delay)
        while True:
            streak = streak.then(await self._try(probe))
            if streak.verdict(probe) is False:
                self._condemn(probe)
                return
            await asyncio.sleep(probe.period)

    async def _try(self, probe: Probe) -> bool:
        try:
            await self.handlers.carry_out(probe.handler, probe.timeout)
        except HandlerFailed as error:
            self.recorder.event(self.pod, WARNING, "Unhealthy", f"{probe.kind.title} probe failed: {error}")
            return False
        return True

    def _condemn(self, probe: Probe) -> None:
        name = self.handlers.container["name"]
        self.condemn(f"Container {name} failed {probe.kind.title.lower()} probe, will be restarted", probe.grace)

    def _change(self, health: Health) -> None:
        if health != self.health:
            self.health = health
            self.tell(health)


async def before_stop(pod: Obj, handlers: Handlers, recorder: Recorder) -> None:
    """Run the preStop hook, if there is one. Its failure is told and changes nothing."""
    hook = (handlers.container.get("lifecycle") or {}).get("preStop")
    if not hook:
        return
    try:
        await handlers.carry_out(hook, _HOOK_SECONDS)
    except HandlerFailed as error:
        recorder.event(pod, WARNING, "FailedPreStopHook", f"PreStopHook failed: {error}")
