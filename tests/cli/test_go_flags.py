from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from hekla.cli.go_flags import GoGroup


@click.group(cls=GoGroup)
def program() -> None: ...


@program.command()
@click.option("-A", "--all", "every", is_flag=True)
@click.option("-w", "--watch", is_flag=True)
@click.option("-r", "--replicas", type=int, default=1)
@click.option("-N", "--name", default="")
@click.argument("words", nargs=-1)
def show(every: bool, watch: bool, replicas: int, name: str, words: tuple[str, ...]) -> None:
    click.echo(f"{every:d}{watch:d} {replicas} {name!r} {' '.join(words)}")


def shown(line: str) -> str:
    result = CliRunner().invoke(program, ["show", *line.split()])
    return result.output.strip() if result.exit_code == 0 else result.output.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("--all=true", "10 1 ''"),
        ("--all=false", "00 1 ''"),
        ("--all=T --watch=0", "10 1 ''"),
        ("--all --all=false", "00 1 ''"),
        ("--all=false --all", "10 1 ''"),
        ("-A=true", "10 1 ''"),
        ("-wA=false", "01 1 ''"),
        ("-Aw", "11 1 ''"),
        ("-r=5", "00 5 ''"),
        ("-r5", "00 5 ''"),
        ("-r 5", "00 5 ''"),
        ("-Ar=5 a", "10 5 '' a"),
        ("--replicas=5", "00 5 ''"),
        ("-N=a=b", "00 1 'a=b'"),
        ("-N=", "00 1 '='"),
        # The value of a flag is no flag, and after two dashes nothing is.
        ("--name -r=5", "00 1 '-r=5'"),
        ("-N --all=false -A", "10 1 '--all=false'"),
        ("-A -- --all=false -r=5", "10 1 '' --all=false -r=5"),
        ("a --all=true b", "10 1 '' a b"),
    ],
)
def test_flags_are_read_as_upstream_reads_them(line: str, read: str) -> None:
    assert shown(line) == read


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--all=no", "Error: Invalid value for '-A' / '--all': 'no' is not a valid boolean."),
        ("-A=maybe", "Error: Invalid value for '-A' / '--all': 'maybe' is not a valid boolean."),
        ("-r=many", "Error: Invalid value for '-r' / '--replicas': 'many' is not a valid integer."),
        ("-x=5", "Error: No such option '-x'"),
        ("--none=5", "Error: No such option '--none'"),
        ("-r", "Error: Option '-r' requires an argument."),
    ],
)
def test_what_is_no_flag_and_no_value_is_refused(line: str, told: str) -> None:
    assert shown(line).startswith(told)
