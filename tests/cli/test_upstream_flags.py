"""Command lines written for upstream's programs start ours."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hekla.cli.main import hekla
from hekla.cli.upstream_flags import (
    MOOT_FOR_SCHEDULER,
    QUEUE_GATES,
    boolean,
    chosen,
    feature_gates,
    moot,
    pairs,
    queue_gates_option,
)
from hekla.errors import UsageError

CONTROLLERS, LATER = ("job-controller", "queue-controller", "gc-controller"), ("sharding-controller",)


@click.command()
@boolean("--enable-metrics", help="")
@boolean("--priority-class", default=True, help="")
@feature_gates
@moot(MOOT_FOR_SCHEDULER)
def program(enable_metrics: bool, priority_class: bool) -> None:
    click.echo(f"metrics {enable_metrics}, classes {priority_class}")


def run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(program, arguments, catch_exceptions=False)
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "metrics False, classes True"),
        (["--enable-metrics"], "metrics True, classes True"),
        (["--enable-metrics", "--priority-class=false"], "metrics True, classes False"),
        (["--enable-metrics=true", "--priority-class"], "metrics True, classes True"),
    ],
)
def test_booleans_are_written_as_in_go(arguments: list[str], said: str) -> None:
    assert run(*arguments) == (said, "")


@pytest.mark.parametrize("command", ["controllers", "scheduler", "webhook"])
def test_a_flag_without_meaning_here_has_its_value_after_a_blank_be_it_below_zero(command: str) -> None:
    own = {"controllers": "--max-requeue-num", "scheduler": "--minimum-feasible-nodes", "webhook": "--resync-period"}
    # An unknown gate ends it where everything before has been taken.
    done = CliRunner().invoke(hekla, [command, own[command], "-1", "--logtostderr", "--feature-gates", "None=true"])
    assert isinstance(done.exception, UsageError), done.output
    assert f"note: {own[command]} changes nothing" in done.stderr


@pytest.mark.parametrize(
    ("argument", "named"),
    [("--kube-api-qps=2000", "--kube-api-qps"), ("--logtostderr", "--logtostderr"), ("-v=3", "-v")],
)
def test_a_flag_without_meaning_here_is_taken_and_said_to_change_nothing(argument: str, named: str) -> None:
    out, err = run(argument, "--enable-metrics")
    assert out == "metrics True, classes True"
    assert err.startswith(f"note: {named} changes nothing: ")


def test_gates_that_say_what_is_so_are_taken() -> None:
    assert run("--feature-gates=WorkLoadSupport=true,CSIStorage=false")[1] == ""


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ("WorkLoadSupport=false", "WorkLoadSupport is always true here"),
        ("Nonsense=true", "no gate 'Nonsense'"),
        ("CSIStorage", "not of the form CSIStorage=true"),
    ],
)
def test_gates_that_cannot_be_switched_are_refused(gates: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run("--feature-gates", gates)


@click.command()
@queue_gates_option
def scheduler(queue_gates: bool) -> None:
    click.echo(queue_gates)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "False"),
        ([f"--feature-gates={QUEUE_GATES}=true,WorkLoadSupport=true"], "True"),
        ([f"--feature-gates={QUEUE_GATES}=false"], "False"),
    ],
)
def test_the_gate_of_queues_can_be_switched_for_the_scheduler(arguments: list[str], said: str) -> None:
    assert CliRunner().invoke(scheduler, arguments, catch_exceptions=False).stdout.strip() == said
    with pytest.raises(UsageError, match="WorkLoadSupport is always true here"):
        CliRunner().invoke(scheduler, ["--feature-gates=WorkLoadSupport=false"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("wishes", "left_out"),
    [
        ([], []),
        (["*"], []),
        (["*,-gc-controller"], ["gc-controller"]),
        (["*", "+job-controller", "-sharding-controller"], []),
        (["job-controller", "queue-controller"], ["gc-controller"]),
    ],
)
def test_controllers_are_chosen_by_name(wishes: list[str], left_out: list[str]) -> None:
    assert chosen("--controllers", wishes, CONTROLLERS, later=LATER) == set(CONTROLLERS) - set(left_out)


@pytest.mark.parametrize("wishes", ["nobody", "*,-nobody", "gc-controller,-gc-controller", "*,sharding-controller"])
def test_a_wrong_choice_of_controllers_is_refused(wishes: str) -> None:
    with pytest.raises(UsageError, match="--controllers: "):
        chosen("--controllers", [wishes], CONTROLLERS, later=LATER)


def test_pairs_of_key_and_value() -> None:
    assert pairs("--node-selector", ["pool:a", "pool:b,zone:c"]) == (("pool", "a"), ("pool", "b"), ("zone", "c"))
    with pytest.raises(UsageError, match="'pool' is not of the form key:value"):
        pairs("--node-selector", ["pool"])


# What upstream's own Deployments pass.
UPSTREAM = {
    "scheduler": "--logtostderr --scheduler-conf=/dev/null --enable-healthz=true --enable-metrics=true "
    "--leader-elect=false --kube-api-qps=2000 --kube-api-burst=2000 --schedule-period=1s --node-worker-threads=20 "
    "--resource-sync-timeout=60s -v=3",
    "controllers": "--logtostderr --enable-healthz=true --enable-metrics=true --leader-elect=false --kube-api-qps=50 "
    "--kube-api-burst=100 --worker-threads=3 --worker-threads-for-gc=1 --worker-threads-for-podgroup=5 -v=4 "
    "--controllers=*,-sharding-controller --inherit-owner-annotations=true",
    "webhook": "--enabled-admission=/jobs/mutate,/jobs/validate --tls-cert-file=/dev/null --ca-cert-file=/dev/null "
    "--tls-private-key-file=/dev/null --admission-conf=/dev/null --webhook-namespace=volcano-system "
    "--webhook-service-name=volcano-admission-service --enable-healthz=true --logtostderr --port=8443 -v=4 "
    "--kube-api-qps=50 --enable-root-queue-protection=true --enable-queue-allocated-pods-check=false",
}


# Every flag of upstream's scheduler.
SCHEDULER_FLAGS = (
    "--master --kubeconfig --ca-cert-file --tls-cert-file --tls-private-key-file --scheduler-name --scheduler-conf "
    "--schedule-period --resync-period --default-queue --version --listen-address --healthz-address --enable-healthz "
    "--enable-metrics --enable-pprof --priority-class --kube-api-qps --kube-api-burst --minimum-feasible-nodes "
    "--minimum-percentage-nodes-to-find --percentage-nodes-to-find --plugins-dir --csi-storage --node-selector "
    "--cache-dumper --cache-dump-dir --node-worker-threads --gate-removal-worker-num --ignored-provisioners "
    "--resource-sync-timeout --disable-default-scheduler-config --scheduler-sharding-mode --scheduler-sharding-name "
    "--feature-gates --leader-elect --leader-elect-lease-duration --leader-elect-renew-deadline "
    "--leader-elect-retry-period --leader-elect-resource-lock --leader-elect-resource-name "
    "--leader-elect-resource-namespace --lock-object-namespace"
)


def test_every_flag_of_upstreams_scheduler_is_known() -> None:
    command = hekla.get_command(click.Context(hekla), "scheduler")
    assert command is not None
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert set(SCHEDULER_FLAGS.split()) <= known


@pytest.mark.parametrize("flag", ["--schedule-period", "--plugin-budget", "--leader-elect-retry-period"])
@pytest.mark.parametrize("value", ["0", "0s", "-1s"])
def test_a_pause_or_a_budget_of_nothing_is_refused(flag: str, value: str) -> None:
    refused = CliRunner().invoke(hekla, ["scheduler", f"{flag}={value}"])
    assert refused.exit_code == 2
    assert f"{value!r} is no time at all: it must be above zero" in refused.output


def test_nodes_are_not_divided_among_schedulers() -> None:
    invoke = CliRunner().invoke
    assert invoke(hekla, ["scheduler", "--scheduler-sharding-mode=none", "--version"]).exit_code == 0
    refused = invoke(hekla, ["scheduler", "--scheduler-sharding-mode=hard"])
    assert "'hard' cannot be had here" in str(refused.exception)


@pytest.mark.parametrize("component", UPSTREAM)
def test_upstreams_own_command_lines_are_understood(component: str) -> None:
    command = hekla.get_command(click.Context(hekla), component)
    assert command is not None
    with command.make_context(component, UPSTREAM[component].split()) as context:
        assert context.params["enable_healthz"] is True


def test_a_scheduler_that_is_to_share_the_pods_with_others_is_refused(tmp_path: Path) -> None:
    env = {"MULTI_SCHEDULER_ENABLE": "true", "SCHEDULER_NUM": "2", "SCHEDULER_POD_NAME": "scheduler-0"}
    done = CliRunner().invoke(hekla, ["scheduler", "--kubeconfig", str(tmp_path / "none")], env=env)
    assert isinstance(done.exception, UsageError)
    assert "MULTI_SCHEDULER_ENABLE" in str(done.exception)


@pytest.mark.parametrize("component", ["controllers", "scheduler", "webhook"])
def test_a_version_that_is_not_wished_is_not_shown(component: str) -> None:
    done = CliRunner().invoke(hekla, [component, "--enable-healthz", "--version=false", "--help"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Usage: hekla")
    assert CliRunner().invoke(hekla, [component, "--version=true"]).stdout.startswith("hekla, version ")


@pytest.mark.parametrize(
    "line",
    [
        "run --detach=false --no-logs=true",
        "up --detach=false",
        "logs --follow=false",
        "install --print=false --with-node=0",
    ],
)
def test_switches_of_our_own_are_set_by_name_as_well(line: str) -> None:
    assert CliRunner().invoke(hekla, [*line.split(), "--help"]).exit_code == 0
