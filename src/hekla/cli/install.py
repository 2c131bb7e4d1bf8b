"""`hekla install`: what a real cluster needs before our controllers and scheduler run on it."""

from __future__ import annotations

import click

from hekla.cli.connection import ClusterOptions, cluster_options, with_client


@click.command()
@cluster_options
@click.option("--print", "print_only", is_flag=True, help="Print the manifests instead of applying them.")
def install(cluster: ClusterOptions, print_only: bool) -> None:
    """Install the Volcano CRDs on a cluster.

    \b
    Example:  hekla install --kubeconfig ~/.kube/config
    """
    from hekla.api.crds import load_crds
    from hekla.local.bootstrap import install_crds

    crds = load_crds()
    if print_only:
        import yaml

        click.echo(yaml.safe_dump_all(crds, sort_keys=False), nl=False)
        return
    with_client(cluster.connection(), install_crds)
    click.echo(f"{len(crds)} CustomResourceDefinitions are in place.")
