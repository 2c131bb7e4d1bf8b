"""What a real cluster's own controllers do and batch work relies on: garbage collection, the end of namespaces and
definitions, storage for claims, the endpoints of Services, what pods of every namespace need to reach the API, and what
is left of quotas and budgets.

They speak to the API server through the client alone, so they work on any server that lacks them.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from hekla.client.rest import Client
from hekla.clock import Clock
from hekla.local.builtins.account_secrets import AccountSecretController
from hekla.local.builtins.aggregation import AggregationController
from hekla.local.builtins.budgets import BudgetController
from hekla.local.builtins.claims import ClaimController
from hekla.local.builtins.definitions import DefinitionController
from hekla.local.builtins.endpoints import EndpointController
from hekla.local.builtins.furnishing import FurnishingController
from hekla.local.builtins.garbage import GarbageCollector
from hekla.local.builtins.namespaces import NamespaceController
from hekla.local.builtins.quotas import QuotaController
from hekla.moved_clock import watch_clock


async def run(
    client: Client, *, clock: Clock, rng: random.Random, volumes: Path | None = None, root_ca: str = ""
) -> None:
    """Run all of them until cancelled. `volumes` is the folder for claims; without it they are only protected.
    `root_ca` is the certificate that every namespace is told to trust the API server by."""
    async with asyncio.TaskGroup() as group:
        group.create_task(GarbageCollector(client, rng=rng).run())
        group.create_task(NamespaceController(client, rng=rng).run())
        group.create_task(DefinitionController(client, rng=rng).run())
        group.create_task(AccountSecretController(client, root_ca, rng=rng).run())
        group.create_task(AggregationController(client, rng=rng).run())
        group.create_task(FurnishingController(client, root_ca, rng=rng).run())
        group.create_task(ClaimController(client, volumes, rng=rng).run())
        group.create_task(EndpointController(client, rng=rng).run())
        quotas = QuotaController(client, clock=clock, rng=rng)
        budgets = BudgetController(client, clock=clock, rng=rng)
        for timed in (quotas, budgets):
            group.create_task(timed.run())
            group.create_task(watch_clock(clock, timed.hasten))
