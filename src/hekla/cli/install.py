"""`hekla install`: what a real cluster needs before our components run on it, or with them."""

from __future__ import annotations

import random

import click

from hekla.api.kinds import SECRET, Obj
from hekla.cli.connection import ClusterOptions, Connection, cluster_options, with_client
from hekla.cli.go_flags import GoCommand
from hekla.client.rest import Client
from hekla.errors import UsageError


@click.command(cls=GoCommand)
@cluster_options
@click.option("--image", default="", help="Also run controllers, scheduler and webhook there, from this image.")
@click.option(
    "--with-node",
    is_flag=True,
    help="Also make the account hekla-node, for `hekla node`: it may issue tokens and read every Secret.",
)
@click.option(
    "--print",
    "print_only",
    is_flag=True,
    help="Print the manifests, with a new certificate, in place of applying them.",
)
def install(cluster: ClusterOptions, image: str, with_node: bool, print_only: bool) -> None:
    """Install the Volcano CRDs and least-privilege access for our components on a cluster.

    Without --image the components are run elsewhere, each with a token of its own account, e.g.
    `kubectl -n volcano-system create token hekla-scheduler`.

    \b
    Examples:  hekla install --kubeconfig ~/.kube/config
               hekla install --image hekla:1.0 --print | kubectl diff -f -
    """
    from hekla.api.crds import load_crds
    from hekla.local.bootstrap import apply_all, install_crds, register_webhooks, wait_for_kinds
    from hekla.local.manifests import NAMESPACE, TLS_SECRET, access_manifests

    crds, access = load_crds(), access_manifests(with_node=with_node)
    if print_only:
        import yaml

        components, hooks = _components(image, None) if image else ([], [])
        objects = [*crds, *access, *components, *hooks]
        click.echo(yaml.safe_dump_all(objects, sort_keys=False), nl=False)
        return

    connection = cluster.connection()
    _refuse_local(connection)

    async def carry_out(client: Client) -> int:
        await install_crds(client)
        present = await client.find(SECRET, TLS_SECRET, NAMESPACE) if image else None
        components, hooks = _components(image, present) if image else ([], [])
        await apply_all(client, [*access, *components])
        # As a whole: of one that `hekla webhook` has written, the address it named must go.
        await register_webhooks(client, hooks)
        await wait_for_kinds(client, rng=random.SystemRandom())
        return len(access) + len(components) + len(hooks)

    others = with_client(connection, carry_out)
    running = f" Controllers, scheduler and webhook start in {NAMESPACE}." if image else ""
    click.echo(f"{len(crds)} CustomResourceDefinitions and {others} other objects are in place.{running}")
    if not image:
        flags = cluster.flags()
        click.echo(f"\nNext, each in a terminal of its own:\n  hekla controllers{flags}\n  hekla scheduler{flags}")
        click.echo(
            "\nNo webhook checks Jobs and fills in what they leave out before `hekla webhook` runs, or --image runs it:"
            "\nuntil then write `minAvailable`, without which a Job is no gang."
        )


def _refuse_local(connection: Connection) -> None:
    """There our components have other names: those of an install would take the rights of the ones that run."""
    local = connection.local_layout()
    if local is not None:
        raise UsageError(
            f"the cluster on {local.root} is a local one, which brings everything itself: "
            "`hekla install` is for a cluster of your own, named by --kubeconfig"
        )


def _components(image: str, secret: Obj | None) -> tuple[list[Obj], list[Obj]]:
    """What runs the image, and the webhook configurations; `secret` is what the cluster holds of the certificate."""
    from hekla.admission.server import SERVICES, webhook_configurations
    from hekla.clock import SystemClock
    from hekla.local.manifests import WEBHOOK_NAMES, component_manifests, webhook_location
    from hekla.local.webhook_tls import webhook_tls

    tls = webhook_tls(secret, WEBHOOK_NAMES, clock=SystemClock())
    # Without resource groups, no pod needs to be asked about before it is made.
    paths = {service.path for service in SERVICES} - {"/pods/mutate"}
    return component_manifests(image, tls), webhook_configurations(tls.authority, webhook_location, paths)
