"""The flags that say which of several schedulers, or controllers, may act: upstream's names and defaults."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from typing import Any

import click

from hekla.cli.connection import ClusterOptions
from hekla.cli.parameters import Duration
from hekla.client.lease import Election, LeaseSettings, new_identity
from hekla.client.rest import Client
from hekla.clock import SystemClock
from hekla.local.manifests import NAMESPACE

_OPTIONS = (
    click.option(
        "--leader-elect",
        type=bool,
        is_flag=False,
        flag_value="true",
        default=None,
        help="Act only while holding a Lease (default: true, but not on the local cluster).",
    ),
    click.option(
        "--leader-elect-lease-duration", type=Duration(), default="15s", help="How long others keep away from it."
    ),
    click.option(
        "--leader-elect-renew-deadline", type=Duration(), default="10s", help="How long we act without renewing it."
    ),
    click.option(
        "--leader-elect-retry-period", type=Duration(), default="2s", help="How often to renew it, or try to get it."
    ),
    click.option("--leader-elect-resource-lock", type=click.Choice(["leases"]), default="leases", help="Its kind."),
    click.option("--leader-elect-resource-name", default="", help="Its name (default: the component's)."),
    click.option(
        "--leader-elect-resource-namespace",
        "--lock-object-namespace",
        default=NAMESPACE,
        help="Its namespace, which must exist.",
    ),
)


def election_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --leader-elect and what belongs to it; `election_of` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def election_of(
    cluster: ClusterOptions, client: Client, flags: dict[str, Any], *, name: str, standing_by: Callable[[], None]
) -> Election | None:
    """The election to win before anything is done; None where we are alone. `name` is what its Lease is called."""
    connection = cluster.connection()
    wanted = flags["leader_elect"] if flags["leader_elect"] is not None else connection.local_layout() is None
    if not wanted:
        return None
    settings = LeaseSettings(
        name=flags["leader_elect_resource_name"] or name,
        namespace=flags["leader_elect_resource_namespace"],
        duration=flags["leader_elect_lease_duration"],
        renew_deadline=flags["leader_elect_renew_deadline"],
        retry_period=flags["leader_elect_retry_period"],
    )
    rng = random.SystemRandom()
    identity = new_identity(socket.gethostname(), rng)
    return Election(
        client,
        settings,
        identity=identity,
        clock=SystemClock(),
        rng=rng,
        standing_by=standing_by,
        connect=connection.client,
    )
