from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from hekla import __version__
from hekla.cli.failing import VerbFailed
from hekla.cli.main import (
    EXIT_BAD_FILE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_MISUSE,
    EXIT_UNPLACEABLE,
    EXIT_VCCTL_FAILED,
    describe,
    hekla,
    run_program,
)
from hekla.errors import NotFound


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            yield (*words, name), found


ALL = dict(commands(hekla))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_no_command_gives_a_flag_two_meanings(words: tuple[str, ...]) -> None:
    given = [flag for parameter in ALL[words].params for flag in (*parameter.opts, *parameter.secondary_opts)]
    assert len(given) == len(set(given))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_on_a_terminal_of_eighty_columns(words: tuple[str, ...]) -> None:
    told = ALL[words].get_help(click.Context(ALL[words], info_name=" ".join(words), terminal_width=80))
    assert [line for line in told.splitlines() if len(line) > 80] == []


# Upstream's flags, by command.
VCCTL = {
    "job run": "-f -N -i -r -m -R -L -S -n -s -k --filename --name --image --replicas --min --requests --limits "
    "--scheduler --namespace --master --kubeconfig",
    "job list": "-n -q -S -s -k --namespace --all-namespaces --selector --queue --scheduler",
    "job view": "-n -N -s -k --namespace --name",
    "job suspend": "-n -N -s -k --namespace --name",
    "job resume": "-n -N -s -k --namespace --name",
    "job delete": "-n -N -s -k --namespace --name",
    "queue create": "-n -w -S -s -k --name --weight --state",
    "queue delete": "-n -s -k --name",
    "queue operate": "-n -w -a -s -k --name --weight --action",
    "queue list": "-s -k",
    "queue get": "-n -s -k --name",
    "pod list": "-n -j -q -s -k --namespace --job --queue --all-namespaces",
}


@pytest.mark.parametrize("command", VCCTL)
def test_the_verbs_of_vcctl_have_its_flags(command: str) -> None:
    given = {flag for parameter in ALL[tuple(command.split())].params for flag in parameter.opts}
    assert set(VCCTL[command].split()) - given == set()


def test_an_unknown_command_is_named_and_a_near_one_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["nothing"], name="vcctl") == 1
    assert capsys.readouterr().err == 'Error: unknown command "nothing" for "vcctl"\n'
    assert run_program(hekla, ["jobs"]) == 64
    assert 'did you mean "job"?' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("job list --bad", "unknown flag: --bad"),
        ("job list -x", "unknown shorthand flag: 'x' in -x"),
        ("job list --scheduler", "flag needs an argument: --scheduler"),
        ("job list -S", "flag needs an argument: 'S' in -S"),
        (
            "job run --name a --replicas many",
            'invalid argument "many" for "-r, --replicas" flag: strconv.ParseInt: parsing "many": invalid syntax',
        ),
        (
            "queue create --weight 1.5",
            'invalid argument "1.5" for "-w, --weight" flag: strconv.ParseInt: parsing "1.5": invalid syntax',
        ),
        (
            "queue create --weight it's",
            'invalid argument "it\'s" for "-w, --weight" flag: strconv.ParseInt: parsing "it\'s": invalid syntax',
        ),
        (
            "job list --all-namespaces=no",
            'invalid argument "no" for "-A, --all-namespaces" flag: strconv.ParseBool: parsing "no": invalid syntax',
        ),
        (
            "queue create -w=much",
            'invalid argument "much" for "-w, --weight" flag: strconv.ParseInt: parsing "much": invalid syntax',
        ),
    ],
)
def test_vcctl_complains_of_a_command_line_in_one_line_of_upstreams_words(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(hekla, words.split(), name="vcctl") == EXIT_FAILED
    assert capsys.readouterr().err == f"Error: {told}\n"


def test_a_group_of_vcctl_that_does_not_know_a_verb_shows_those_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["job", "frobnicate"], name="vcctl") == 0
    assert "suspend" in capsys.readouterr().out
    assert run_program(hekla, ["job", "frobnicate"]) == EXIT_MISUSE


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("jobflow create", "Failed to create jobflow: open : no such file or directory"),
        ("jobtemplate create -f not/there", "Failed to create jobtemplate: open not/there: no such file or directory"),
    ],
)
def test_vcctl_says_of_a_file_that_is_not_there_what_it_was_for(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(hekla, words.split(), name="vcctl") == EXIT_VCCTL_FAILED
    assert capsys.readouterr().out == f"{told}\n"


def test_a_verb_of_vcctl_leaves_words_alone_that_it_has_no_use_for() -> None:
    words = ["jobflow", "create", "-f", "not/there", "more", "words"]
    assert run_program(hekla, words, name="vcctl") == EXIT_VCCTL_FAILED
    assert run_program(hekla, words) == EXIT_MISUSE


@pytest.mark.parametrize("program", ["hekla", "vcctl"])
def test_help_is_a_word_too(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (("help", "COMMAND"), ("help job", "suspend"), ("help job list", "--all-namespaces")):
        assert run_program(hekla, words.split(), name=program) == 0
        assert told in capsys.readouterr().out


def test_a_flow_cannot_be_made_of_no_file() -> None:
    assert run_program(hekla, ["jobflow", "create"]) == EXIT_MISUSE


@pytest.mark.parametrize(
    "words", ["-v 3 version", "version --v=3", "job -v 3 run --help", "job run -v3 --vmodule a=1 --help",
              "--log-flush-frequency 5s queue list -v=3 --help"]
)  # fmt: skip
def test_vcctl_takes_upstreams_flags_for_logs_wherever_they_stand(words: str) -> None:
    assert run_program(hekla, words.split(), name="vcctl") == 0
    assert run_program(hekla, words.split()) == EXIT_MISUSE


@pytest.mark.parametrize(
    "words", [["run"], ["run", "a.yaml", "--detatch"], ["up", "--nodes", "many"], ["lint", "-o", "x", "f"]]
)
def test_a_misused_command_line_is_not_taken_for_a_job_that_cannot_be_placed(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(hekla, words) == EXIT_MISUSE
    assert EXIT_MISUSE not in (EXIT_FAILED, EXIT_UNPLACEABLE, EXIT_BAD_FILE, EXIT_INTERRUPTED)
    assert "Usage: hekla" in capsys.readouterr().err


def test_a_group_alone_shows_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["job"]) == 0
    assert "suspend" in capsys.readouterr().out


def test_a_cluster_without_volcanos_kinds_is_told_what_brings_them() -> None:
    remedy = "the cluster does not know Volcano's kinds: `hekla install` brings them."
    assert describe(NotFound("404 page not found")) == remedy
    assert describe(VerbFailed("Failed to list job: 404 page not found")) == f"Failed to list job: {remedy}"
    assert describe(NotFound('jobs.batch.volcano.sh "x" not found')) == 'jobs.batch.volcano.sh "x" not found'


def test_the_version_is_a_command_too_as_vcctl_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["version"], name="vcctl") == 0
    assert capsys.readouterr().out.startswith(f"Version: {__version__}\n")


def test_a_program_in_place_of_a_job_file_is_told_what_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(hekla, ["run", "train.py"]) == EXIT_BAD_FILE
    assert "train.py is a program, not a job file" in capsys.readouterr().err
