"""`hekla jobflow …` and `hekla jobtemplate …`: the verbs of upstream's vcctl for flows."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from hekla.api.kinds import JOB_FLOW, JOB_TEMPLATE, Kind, Obj
from hekla.api.meta import name_of, namespace_of, parse_timestamp
from hekla.cli.connection import ClusterOptions, cluster_options, with_client
from hekla.cli.failing import failing_as
from hekla.cli.go_flags import GoGroup
from hekla.cli.manifest import read_manifest
from hekla.cli.named import (
    chosen_name,
    confirm,
    delete_one,
    for_each_named,
    full_name,
    name_argument,
    names_argument,
    print_one,
    read_all,
    read_one,
)
from hekla.cli.output import age, print_table
from hekla.cli.parameters import all_namespaces_option
from hekla.cli.submit import check_documents, create_document, require_kind
from hekla.cli.vcctl import check_is_there, is_vcctl, print_fitting
from hekla.client.rest import Client
from hekla.clock import SystemClock


def _print_flows(flows: list[Obj]) -> None:
    now = SystemClock().now()
    rows = [
        [
            name_of(found),
            namespace_of(found),
            ((found.get("status") or {}).get("state") or {}).get("phase", "" if is_vcctl() else "-"),
            age(parse_timestamp(found["metadata"]["creationTimestamp"]), now),
        ]
        for found in flows
    ]
    _print(["Name", "Namespace", "Phase", "Age"], rows)


def _print_templates(templates: list[Obj]) -> None:
    _print(["Name", "Namespace"], [[name_of(found), namespace_of(found)] for found in templates])


def _print(headers: list[str], rows: list[list[str]]) -> None:
    if is_vcctl():
        print_fitting(headers, rows)
    else:
        print_table([header.upper() for header in headers], rows)


def _group(kind: Kind, show: Any) -> click.Group:
    """create, list, get, describe and delete for one kind."""
    word = kind.singular

    @click.group(word, cls=GoGroup, help=f"Create, list, show and delete {kind.plural}.")
    def group() -> None: ...

    @group.command("create", help=f"Create from a file.\n\n\b\nExample:  hekla {word} create -f flow.yaml")
    @cluster_options
    @click.option("-f", "--filename", "--file", default="", help="The file; - for standard input.")
    @failing_as(f"create {word}")
    def create(cluster: ClusterOptions, filename: str) -> None:
        check_is_there(filename)
        if not filename:
            raise click.MissingParameter(param_hint="'-f' / '--filename'", param_type="option")
        documents = read_manifest(filename)
        connection = cluster.connection()
        check_documents(documents, connection.namespace)

        async def work(client: Client) -> None:
            for document in documents:
                created = await create_document(client, document)
                vcctl = f"Created {kind.kind}: {namespace_of(created)}/{name_of(created)}"
                confirm(f"{full_name(require_kind(document), created)} created", vcctl=vcctl)

        with_client(connection, work)

    @group.command("list", help=f"List {kind.plural}.\n\n\b\nExample:  hekla {word} list -A")
    @cluster_options
    @all_namespaces_option
    @failing_as(f"list {word}")
    def list_all(cluster: ClusterOptions, all_namespaces: bool) -> None:
        found = read_all(cluster, kind, all_namespaces=all_namespaces)
        show(found) if found else click.echo("No resources found")

    @group.command("get", help=f"Show one in a line.\n\n\b\nExample:  hekla {word} get NAME")
    @cluster_options
    @name_argument(kind)
    @failing_as(f"get {word}")
    def get(cluster: ClusterOptions, name: str, name_flag: str) -> None:
        show(
            [
                read_one(
                    cluster,
                    kind,
                    chosen_name(name, name_flag, f"name is mandatory to get the particular {word} details"),
                )
            ]
        )

    @group.command("describe", help=f"Show one whole.\n\n\b\nExample:  hekla {word} describe NAME")
    @cluster_options
    @name_argument(kind)
    @click.option(
        "-o",
        "--format",
        "--output",
        "style",
        type=click.Choice(["yaml", "json"]),
        default="yaml",
        help="In which form to print it.",
    )
    @failing_as(f"describe {word}")
    def describe(cluster: ClusterOptions, name: str, name_flag: str, style: str) -> None:
        if is_vcctl() and not (name or name_flag):
            for number, found in enumerate(read_all(cluster, kind)):
                if number:
                    click.echo("---------------------------------")
                print_one(found, style)
            return
        print_one(read_one(cluster, kind, chosen_name(name, name_flag, f"{word} name is mandatory")), style)

    @group.command("delete", help=f"Delete one or several.\n\n\b\nExample:  hekla {word} delete NAME")
    @cluster_options
    @names_argument(kind)
    @failing_as(f"delete {word}")
    def delete(cluster: ClusterOptions, names: tuple[str, ...], name_flag: str) -> None:
        for_each_named(names, name_flag, f"{word} name must be specified", partial(_delete, cluster, kind, word))

    return group


def _delete(cluster: ClusterOptions, kind: Kind, word: str, name: str) -> None:
    delete_one(cluster, kind, name)
    vcctl = f"Deleted {kind.kind}: {cluster.connection().namespace}/{name}"
    confirm(f"{word}.flow.volcano.sh/{name} deleted", vcctl=vcctl)


jobflow = _group(JOB_FLOW, _print_flows)
jobtemplate = _group(JOB_TEMPLATE, _print_templates)
