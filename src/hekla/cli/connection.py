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
from hekla.errors import Disconnected, HeklaError
from hekla.local.layout import Layout, data_dir_flag, default_data_dir

T = TypeVar("T")


class NotRunning(HeklaError):
    """A local cluster cannot be reached because nobody runs it; the text says what starts it again."""


@dataclass(frozen=True, slots=True)
class Connection:
    access: Access
    namespace: str

    def local_layout(self) -> Layout | None:
        """Where the cluster's files are, if it is a local one: its kubeconfig, or a copy of that, says so."""
        from hekla.local.kubeconfigs import noted_data_dir

        root = noted_data_dir(self.access.extensions)
        return Layout(root) if root is not None and Layout(root).run.is_dir() else None

    def data_dir_flag(self) -> str:
        """What to add to a suggested command so that it means a local cluster's data dir."""
        local = self.local_layout()
        return data_dir_flag(local.root, os.environ) if local else ""

    def why_unreachable(self) -> NotRunning | None:
        """For somebody whose request did not get through; None where it is not for us to know."""
        from hekla.local.running import inspect

        local = self.local_layout()
        if local is None or inspect(local.root) is not None:
            return None
        up = f"hekla up{self.data_dir_flag()}"
        return NotRunning(f"the cluster on {local.root} is not running: start it again with `{up}`")

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
            # What is noted of a cluster is noted of the one at the kubeconfig's address.
            access = replace(access, server=self.server, extensions={})
        return Connection(access, self.namespace or access.namespace)

    def layout(self) -> Layout:
        return Layout((self.data_dir or default_data_dir(os.environ)).absolute())

    def names_a_cluster(self) -> bool:
        """Whether the person said which cluster, so that starting a private one would be wrong."""
        return bool(self.kubeconfig or (self.data_dir is None and os.environ.get("KUBECONFIG")))

    def flags(self) -> str:
        """What to add to a suggested command so that it reaches the same cluster."""
        given = (("-s", self.server), ("--kubeconfig", self.kubeconfig), ("--data-dir", self.data_dir))
        named = [*given, ("--context", self.context), ("-n", self.namespace)]
        return "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in named if value)

    def _none_on_data_dir(self) -> NoKubeconfig | None:
        """The same said for somebody who named a data dir."""
        if self.data_dir is None or self.kubeconfig is not None:
            return None
        start = f"hekla up --data-dir {shlex.quote(str(self.data_dir))}"
        return NoKubeconfig(
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
        except Disconnected as error:
            if (known := connection.why_unreachable()) is not None:
                raise known from error
            raise
        finally:
            await client.close()

    return asyncio.run(main())
