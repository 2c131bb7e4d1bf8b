"""Keeping the rules of the pods' network up to date: NetworkPolicies and Services of the whole cluster.

`ruleset.py` says what the rules are; the switch puts them in force, all at once. A pod's containers are not started
before rules that know its address are in force, so it is never open when it should be closed, nor cut off from peers
that expect it. All agents of a machine write the same rules.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hekla.api.core import FINISHED_POD_PHASES
from hekla.api.kinds import NETWORK_POLICY, Obj
from hekla.api.meta import labels_of, name_of, uid_of
from hekla.client.informer import Informer, Update
from hekla.client.recorder import WARNING, Recorder
from hekla.log import get_logger
from hekla.node.ruleset import NO_RULES, Network, governs_egress, has_cluster_address, rules_id, ruleset
from hekla.node.runtime import Reason
from hekla.node.switch_client import SwitchClient, SwitchError

log = get_logger("node")

_RETRY_SECONDS = 5.0
_NO_NFT = "not enforced on this node: it needs the program nft (Debian's package nftables)"


@dataclass
class Firewall:
    pods: Informer
    services: Informer
    policies: Informer
    namespaces: Informer
    switch: SwitchClient
    recorder: Recorder
    able: bool  # whether this machine can enforce anything
    _starting: dict[str, tuple[Obj, str]] = field(default_factory=dict)  # object and address, by uid
    _change: int = 0
    _seen: int = 0  # the last change that a round has taken in
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _round_over: asyncio.Condition = field(default_factory=asyncio.Condition)
    _in_force: str = NO_RULES
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        for informer in (self.pods, self.services, self.policies, self.namespaces):
            await informer.synced()
            informer.subscribe(self._hear)
        while True:
            self._changed.clear()
            taken_in = self._change
            if not await self._apply(ruleset(self._network())):
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._changed.set)
            async with self._round_over:
                self._seen = taken_in
                self._round_over.notify_all()
            await self._changed.wait()

    async def admit(self, pod: Obj, address: str, in_force: str) -> None:
        """Return when rules that know the pod's address are in force, or cannot be.

        `in_force` is what the switch said when it gave the address: a new switch may know none of our rules.
        """
        self._starting[uid_of(pod)] = (pod, address)
        self._in_force = in_force
        self._note_change()
        wanted = self._change
        async with self._round_over:
            await self._round_over.wait_for(lambda: self._seen >= wanted)

    def _note_change(self) -> None:
        self._change += 1
        self._changed.set()

    def _hear(self, update: Update) -> None:
        if update.new is None or _has_address(update.new):
            self._starting.pop(uid_of(update.obj), None)
        self._note_change()

    def _network(self) -> Network:
        pods = {uid_of(pod): pod for pod in self.pods.all() if _has_address(pod)}
        for uid, (pod, address) in self._starting.items():
            pods.setdefault(uid, {**pod, "status": {"podIP": address}})
        network = Network(
            pods=tuple(pods.values()),
            services=tuple(self.services.all()),
            policies=tuple(self.policies.all()),
            namespaces={name_of(each): labels_of(each) for each in self.namespaces.all()},
        )
        self._tell_what_is_not_heeded(network)
        return network

    async def _apply(self, text: str) -> bool:
        if not self.able or rules_id(text) == self._in_force:
            return True
        try:
            self._in_force = await asyncio.to_thread(self.switch.set_rules, text)
        except SwitchError as error:
            log.warning("network rules are not in force", error=error)
            return False
        return True

    def _tell_what_is_not_heeded(self, network: Network) -> None:
        """Once each: nothing a person wrote is dropped silently."""
        for obj in (*network.policies, *(each for each in network.services if _leads_to_pods(each))):
            if uid_of(obj) in self._told:
                continue
            self._told.add(uid_of(obj))
            if not self.able:
                self.recorder.event(obj, WARNING, str(Reason.UNSUPPORTED), _NO_NFT)
            elif obj.get("kind") == NETWORK_POLICY.kind and governs_egress(obj):
                self.recorder.event(obj, WARNING, str(Reason.UNSUPPORTED), "egress rules are not enforced by this node")


def _leads_to_pods(service: Obj) -> bool:
    return has_cluster_address(service) and bool(service["spec"].get("selector"))


def _has_address(pod: Obj) -> bool:
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") not in FINISHED_POD_PHASES
