"""Names of what is in the cluster, for who presses Tab. What goes wrong is kept quiet: shells cannot show it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import click

from hekla.api.kinds import JOB, Kind
from hekla.api.meta import name_of
from hekla.cli.connection import ClusterOptions, with_client
from hekla.client.rest import Client
from hekla.errors import HeklaError

_PATIENCE_SECONDS = 2.0  # who presses Tab is about to type on
_MOST = 500


def complete_name(kind: Kind, context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    given: dict[str, Any] = {name: context.params.get(name) or "" for name in ("context", "namespace", "server")}
    cluster = ClusterOptions(context.params.get("kubeconfig"), context.params.get("data_dir"), **given)
    try:
        connection = cluster.connection()
        found = with_client(connection, partial(_list, kind, connection.namespace))
    except (HeklaError, OSError):
        return []
    return [name for name in found if name.startswith(incomplete)]


async def _list(kind: Kind, namespace: str, client: Client) -> list[str]:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        page = await client.list(kind, namespace if kind.namespaced else None, limit=_MOST)
    return sorted(map(name_of, page.items))


complete_job = partial(complete_name, JOB)
