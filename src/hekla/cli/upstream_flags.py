"""What upstream's command lines look like: Go's booleans, lists and feature gates, and flags that we have no use for.

A Deployment written for upstream starts our programs as it is. A flag that sets something we do not have is taken, and
said to change nothing; a feature that we cannot switch is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import click

from hekla import __version__
from hekla.errors import UsageError

Command = Callable[..., Any]

_THREADS = "work is not divided among threads"
_THROTTLE = "requests are not throttled here; the API server's own priorities decide"
_SAMPLING = "all nodes are looked at"
_LOGS = "logs go to standard error; --log-level says how much"

# flag: why it changes nothing
_MOOT_EVERYWHERE: Mapping[str, str] = {
    "--kube-api-qps": _THROTTLE,
    "--kube-api-burst": _THROTTLE,
    "--resync-period": "what is known is kept up by watches and asked for again when they break",
    "--enable-pprof": "there is no Go program to profile",
    "--logtostderr": _LOGS,
    "--alsologtostderr": _LOGS,
    "--stderrthreshold": _LOGS,
    "--vmodule": _LOGS,
    "--v": _LOGS,
    "-v": _LOGS,
}
# Of them upstream's booleans, which may stand alone. The others have a value, be it -1.
_SWITCHES = frozenset({"--enable-pprof", "--logtostderr", "--alsologtostderr", "--csi-storage", "--cache-dumper"})
MOOT_FOR_CONTROLLERS: Mapping[str, str] = {
    **_MOOT_EVERYWHERE,
    "--worker-threads": _THREADS,
    "--worker-threads-for-cronjob": _THREADS,
    "--worker-threads-for-podgroup": _THREADS,
    "--worker-threads-for-queue": _THREADS,
    "--worker-threads-for-gc": _THREADS,
    "--max-requeue-num": "what failed is tried again until it succeeds",
    "--ca-cert-file": "it is in the kubeconfig",
    "--tls-cert-file": "nothing is served over TLS",
    "--tls-private-key-file": "nothing is served over TLS",
}
MOOT_FOR_SCHEDULER: Mapping[str, str] = {
    **_MOOT_EVERYWHERE,
    "--minimum-feasible-nodes": _SAMPLING,
    "--minimum-percentage-nodes-to-find": _SAMPLING,
    "--percentage-nodes-to-find": _SAMPLING,
    "--node-worker-threads": _THREADS,
    "--gate-removal-worker-num": _THREADS,
    "--csi-storage": "claims and volumes are always looked at",
    "--cache-dumper": "`hekla why --output json` shows what the scheduler knows",
    "--cache-dump-dir": "`hekla why --output json` shows what the scheduler knows",
    "--ignored-provisioners": "volumes count only for drivers that tell how many a node may have",
    "--scheduler-sharding-name": "nodes are not divided among schedulers",
    "--resource-sync-timeout": "nothing is scheduled before everything is known",
    "--ca-cert-file": "it is in the kubeconfig",
    "--tls-cert-file": "nothing is served over TLS",
    "--tls-private-key-file": "nothing is served over TLS",
}
MOOT_FOR_WEBHOOK: Mapping[str, str] = {
    **_MOOT_EVERYWHERE,
    "--graceful-shutdown-time": "a stop waits for the answers that are being given",
}

CONTROLLERS_TO_COME = ("hyperNode-controller", "sharding-controller", "colocation-config-controller")

version_option = click.version_option(__version__, prog_name="hekla")

_SHARING = "MULTI_SCHEDULER_ENABLE"
QUEUE_GATES = "SchedulingGatesQueueAdmission"
_GATES: Mapping[str, bool] = {
    "WorkLoadSupport": True,
    "VolcanoJobSupport": True,
    "PodDisruptionBudgetsSupport": True,
    "QueueCommandSync": True,
    "PriorityClass": True,
    "ResourceTopology": True,
    "CronVolcanoJobSupport": True,
    "CSIStorage": False,
    QUEUE_GATES: False,
}


def boolean(name: str, *, default: bool = False, help: str) -> Callable[[Command], Command]:
    """Go's form of a boolean: `--name`, `--name=true` or `--name=false`."""
    return click.option(name, type=bool, is_flag=False, flag_value="true", default=default, help=help)


def moot(flags: Mapping[str, str]) -> Callable[[Command], Command]:
    """Takes flags of upstream's that change nothing here, and says so when one is set."""

    def decorate(command: Command) -> Command:
        for flag in flags:
            alone: dict[str, Any] = {"flag_value": "true"} if flag in _SWITCHES else {}
            option = click.option(
                flag, hidden=True, expose_value=False, is_flag=False, default=None, callback=_note(flag, flags[flag]),
                **alone,
            )  # fmt: skip
            command = option(command)
        return command

    return decorate


def feature_gates(command: Command) -> Command:
    """`--feature-gates A=true,B=false`: taken where they say what is so anyway."""
    return click.option(
        "--feature-gates", expose_value=False, callback=_check_gates, metavar="NAME=BOOL,…", help="Upstream's, checked."
    )(command)


def queue_gates_option(command: Command) -> Command:
    """The same, as the value `queue_gates`: whether pods may wait at the gate of their queue can be switched."""
    return click.option(
        "--feature-gates",
        "queue_gates",
        callback=_read_queue_gates,
        metavar="NAME=BOOL,…",
        help=f"{QUEUE_GATES}=true, or checked.",
    )(command)


def sharding_option(command: Command) -> Command:
    """Takes --scheduler-sharding-mode where it asks for none."""
    option = click.option("--scheduler-sharding-mode", hidden=True, expose_value=False, callback=_check_sharding)
    return option(command)


def health_options(command: Command) -> Command:
    """Adds --enable-healthz and --healthz-address; `health_address` reads them."""
    command = click.option("--healthz-address", default=":11251", help="Where to tell it.")(command)
    return boolean("--enable-healthz", help="Tell at /healthz that we live.")(command)


def health_address(flags: Mapping[str, Any]) -> str:
    return str(flags["healthz_address"]) if flags["enable_healthz"] else ""


def _note(flag: str, reason: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def note(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value is not None:
            click.echo(f"note: {flag} changes nothing: {reason}", err=True)

    return note


def _check_sharding(_ctx: click.Context, _param: click.Parameter, mode: str | None) -> None:
    if mode not in (None, "none"):
        raise UsageError(f"--scheduler-sharding-mode: {mode!r} cannot be had here, only none")


def refuse_to_share(environment: Mapping[str, str]) -> None:
    """Upstream's schedulers divide the pods among them where the environment says so; ours would all take all."""
    if environment.get(_SHARING) == "true":
        raise UsageError(f"{_SHARING}: pods and nodes are not divided among schedulers; let one lead (--leader-elect)")


def _check_gates(_ctx: click.Context, _param: click.Parameter, text: str | None) -> None:
    _read_gates(text, switchable=())


def _read_queue_gates(_ctx: click.Context, _param: click.Parameter, text: str | None) -> bool:
    return _read_gates(text, switchable=(QUEUE_GATES,))[QUEUE_GATES]


def _read_gates(text: str | None, switchable: Collection[str]) -> dict[str, bool]:
    gates = dict(_GATES)
    for entry in (part.strip() for part in (text or "").split(",")):
        if not entry:
            continue
        name, _, value = entry.partition("=")
        if name not in _GATES:
            raise UsageError(f"--feature-gates: no gate {name!r} (known: {', '.join(sorted(_GATES))})")
        if value.lower() not in ("true", "false"):
            raise UsageError(f"--feature-gates: {entry!r} is not of the form {name}=true or {name}=false")
        if name not in switchable and (value.lower() == "true") != _GATES[name]:
            raise UsageError(f"--feature-gates: {name} is always {str(_GATES[name]).lower()} here")
        gates[name] = value.lower() == "true"
    return gates


def chosen(flag: str, wishes: Iterable[str], known: Collection[str], *, later: Collection[str] = ()) -> frozenset[str]:
    """Which of `known` a list like `*,-gc-controller` names; no list at all is `*`.

    Of those to come `later` none can be had, but anybody may say that they do not want it.
    """
    wanted = [wish.strip() for entry in wishes for wish in entry.split(",") if wish.strip()]
    named: dict[str, bool] = {}
    for wish in wanted:
        name, on = wish.lstrip("+-"), not wish.startswith("-")
        if wish == "*":
            continue
        if name in later and on:
            raise UsageError(f"{flag}: there is no {name} yet")
        if name not in known and name not in later:
            raise UsageError(f"{flag}: no {name!r} (known: {', '.join(known)})")
        if named.setdefault(name, on) != on:
            raise UsageError(f"{flag}: {name!r} is both wanted and not wanted")
    every = not wanted or "*" in wanted
    return frozenset(name for name in known if named.get(name, every))


def pairs(flag: str, entries: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """`key:value` entries, each also a list of them."""
    found = []
    for entry in (part.strip() for text in entries for part in text.split(",") if part.strip()):
        key, colon, value = entry.partition(":")
        if not colon or not key:
            raise UsageError(f"{flag}: {entry!r} is not of the form key:value")
        found.append((key, value))
    return tuple(found)
