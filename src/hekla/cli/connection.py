"""Which cluster a command talks to, and the options that say so.

`--kubeconfig`, else `--data-dir`'s, else `KUBECONFIG`, else the local cluster that is running, else `~/.kube/config`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from hekla.client.kubeconfig import Access, NoKubeconfig, connect, default_paths, load_access
from hekla.client.rest import Client
from hekla.errors import UsageError
from hekla.local.layout import Layout, default_data_dir

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    access: Access
    namespace: str

    def data_dir(self) -> Path:
        """Of a local cluster: its kubeconfig, or a copy of that, says where it is, or lies in it. Else any folder."""
        from hekla.local.kubeconfigs import noted_data_dir

        return noted_data_dir(self.access.extensions) or Path(self.access.source).parent

    def client(self) -> Client:
        return connect(
            self.access, user_agent="hekla-cli", on_warning=lambda text: click.echo(f"warning: {text}", err=True)
        )


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    kubeconfig: Path | None
    data_dir: Path | None
    context: str
    namespace: str
    server: str = ""

    def connection(self) -> Connection:
        try:
            access = load_access(self._paths(), context=self.context)
        except NoKubeconfig as error:
            raise self._none_on_data_dir() or error from None
        if self.server:
            access = replace(access, server=self.server)
        return Connection(access, self.namespace or access.namespace)

    def layout(self) -> Layout:
        return Layout((self.data_dir or default_data_dir(os.environ)).absolute())

    def names_a_cluster(self) -> bool:
        """Whether the person said which cluster, so that starting a private one would be wrong."""
        return bool(self.kubeconfig or (self.data_dir is None and os.environ.get("KUBECONFIG")))

    def local_layout(self) -> Layout | None:
        """The files of the cluster that commands go to, if it is a local one: in the data dir, or where its kubeconfig,
        or a copy of that, says they are."""
        from hekla.local.kubeconfigs import noted_data_dir

        paths, own = self._paths(), self.layout()
        if paths == [own.kubeconfig]:
            return own
        if self.server:
            return None
        try:
            found = noted_data_dir(load_access(paths, context=self.context).extensions)
        except NoKubeconfig:
            return None
        return Layout(found) if found is not None and Layout(found).run.is_dir() else None

    def flags(self) -> str:
        """What to add to a suggested command so that it reaches the same cluster."""
        given = (("-s", self.server), ("--kubeconfig", self.kubeconfig), ("--data-dir", self.data_dir))
        named = [*given, ("--context", self.context), ("-n", self.namespace)]
        return "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in named if value)

    def _none_on_data_dir(self) -> UsageError | None:
        """The same said for somebody who named a data dir."""
        if self.data_dir is None or self.kubeconfig is not None:
            return None
        start = f"hekla up --data-dir {shlex.quote(str(self.data_dir))}"
        return UsageError(
            f"no cluster has been started on {self.data_dir}: start one with `{start}`, or name one with --kubeconfig"
        )

    def _paths(self) -> list[Path]:
        from hekla.local.running import inspect

        if self.kubeconfig is not None:
            return [self.kubeconfig]
        layout = self.layout()
        if self.data_dir is not None:
            return [layout.kubeconfig]
        if not os.environ.get("KUBECONFIG") and inspect(layout.root) is not None:
            return [layout.kubeconfig]
        return default_paths(os.environ)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --kubeconfig, --data-dir, --context, -s and -n; the function gets one `cluster: ClusterOptions`."""
    return _with_options(command, [_NAMESPACE, *_OPTIONS])


def clusterwide_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for what has no namespace: there -n is free for the command's own use."""
    return _with_options(command, _OPTIONS)


_PATH = click.Path(path_type=Path)
_NAMESPACE = click.option(
    "-n", "--namespace", default="", help="Namespace (default: the kubeconfig's, else `default`)."
)
_OPTIONS = [
    click.option(
        "-s", "--master", "server", default="", help="Address of the API server, in place of the kubeconfig's."
    ),
    click.option("--context", default="", help="Context of the kubeconfig."),
    click.option("--data-dir", type=_PATH, default=None, envvar="HEKLA_DATA_DIR", help="The local cluster's folder."),
    click.option("-k", "--kubeconfig", type=_PATH, default=None, help="Kubeconfig of the cluster to talk to."),
]


def _with_options(command: Callable[..., Any], options: list[Callable[..., Any]]) -> Callable[..., Any]:
    def call(
        kubeconfig: Path | None,
        data_dir: Path | None,
        context: str,
        server: str,
        namespace: str = "",
        **parameters: Any,
    ) -> Any:
        return command(cluster=ClusterOptions(kubeconfig, data_dir, context, namespace, server), **parameters)

    call.__doc__ = command.__doc__
    call.__name__ = command.__name__
    for option in options:
        call = option(call)
    # Options a command declares itself stand nearer to its function: keep them first in --help.
    own = getattr(command, "__click_params__", [])
    call.__click_params__ = [*call.__click_params__, *own] if own else call.__click_params__  # type: ignore[attr-defined]
    return call


def with_client(connection: Connection, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Run `work` with a client and close it after, on a loop of its own."""

    async def main() -> T:
        client = connection.client()
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())
