"""The `hekla` program (and `vcctl`, its other name).

Commands live in their own modules and are imported when called: `hekla --help` must answer at once. Errors meant for
people end here, as one message and an exit status; tracebacks are for `--debug`.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

import click

from hekla import __version__
from hekla.cli.log_flags import TakesLogFlags
from hekla.errors import ApiError, Disconnected, HeklaError, Misuse, told_error

EXIT_FAILED = 1
EXIT_UNPLACEABLE = 2
EXIT_BAD_FILE = 3
EXIT_MISUSE = 64
EXIT_INTERRUPTED = 130
EXIT_VCCTL_FAILED = 255

_UNKNOWN_PATH = "404 page not found"

# name: (module, attribute, one line of help)
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "run": ("hekla.cli.run", "run", "Run a job file: submit, follow, exit with its outcome."),
    "up": ("hekla.cli.cluster", "up", "Start a local cluster."),
    "down": ("hekla.cli.cluster", "down", "Stop the local cluster and everything it runs."),
    "status": ("hekla.cli.cluster", "status", "Show the local cluster's components and nodes."),
    "logs": ("hekla.cli.logs", "logs", "Print a job's logs, merged and prefixed by pod."),
    "why": ("hekla.cli.why", "why", "Say why a job is waiting."),
    "plan": ("hekla.cli.plan", "plan", "Say where a job's pods would go, before it is submitted."),
    "lint": ("hekla.cli.lint", "lint", "Find what is wrong or doubtful in job files, with no cluster."),
    "render": ("hekla.cli.render", "render", "Print the objects a job would become, with no cluster."),
    "job": ("hekla.cli.job", "job", "List, view, run, suspend, resume and delete jobs."),
    "queue": ("hekla.cli.queue", "queue", "Create, list, operate (open, close, weigh) and delete queues."),
    "pod": ("hekla.cli.pod", "pod", "List the pods of jobs."),
    "jobflow": ("hekla.cli.flow", "jobflow", "Create, list, show and delete job flows."),
    "jobtemplate": ("hekla.cli.flow", "jobtemplate", "Create, list, show and delete job templates."),
    "events": ("hekla.cli.events", "events", "Tell a job's story: its events and its pods', in order."),
    "webhook": ("hekla.cli.serve", "webhook", "Run the admission webhooks alone."),
    "apiserver": ("hekla.cli.serve", "apiserver", "Run the API server alone."),
    "controllers": ("hekla.cli.serve", "controllers", "Run the controllers alone."),
    "scheduler": ("hekla.cli.serve", "scheduler", "Run the scheduler alone."),
    "node": ("hekla.cli.serve", "node", "Run a node alone: pods of any cluster on this machine."),
    "plugin": ("hekla.cli.plugin", "plugin", "Try out plugins of your own."),
    "config": ("hekla.cli.config", "config", "Show the scheduler's configuration in force."),
    "completion": ("hekla.cli.completion", "completion", "Print what makes your shell complete commands and flags."),
    "version": ("hekla.cli.version", "version", "Print the version."),
    "install": ("hekla.cli.install", "install", "Install the CRDs on a cluster."),
}
SECTIONS = (
    ("Run", ("run", "plan", "logs", "why", "events", "lint", "render")),
    ("Manage", ("job", "queue", "pod", "jobflow", "jobtemplate", "config", "plugin", "completion", "version")),
    ("Local cluster", ("up", "down", "status")),
    ("On a cluster of your own", ("install", "controllers", "scheduler", "webhook", "node", "apiserver")),
)


class LazyGroup(TakesLogFlags, click.Group):
    """A group that knows its commands by name and help line, and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry[0]), entry[1])
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`help job list` is read as `job list --help`."""
        asked = bool(args) and args[0] == "help"
        return super().parse_args(ctx, [*args[1:], "--help"] if asked else args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # As below; click would make a failure of it.
            silence_output()
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(name, _COMMANDS[name][2]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            import difflib

            text = f'unknown command "{args[0]}" for "{ctx.command_path}"'
            close = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            raise click.UsageError(f'{text}, did you mean "{close[0]}"?' if close else text, ctx) from None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hekla")
@click.option("--debug", is_flag=True, envvar="HEKLA_DEBUG", help="Show tracebacks.")
def hekla(debug: bool) -> None:
    """Volcano batch jobs, on this machine or on any Kubernetes cluster, from the same YAML.

    \b
    Try:  hekla run examples/hello-gang/job.yaml
    """


def main() -> None:
    _expect_no_garbage()
    sys.exit(run_program(hekla, sys.argv[1:]))


def vcctl() -> None:
    """The same program under upstream's name."""
    _expect_no_garbage()
    sys.exit(run_program(hekla, sys.argv[1:], name="vcctl"))


def _expect_no_garbage() -> None:
    """Loading modules makes many objects that stay: looking for garbage among them is a tenth of the time."""
    gc.set_threshold(50_000, 20, 100)


def run_program(command: click.Command, arguments: list[str], name: str = "hekla") -> int:
    """Run a command line and give its exit status. No exception meant for a person leaves as a traceback."""
    debug = "--debug" in arguments or bool(os.environ.get("HEKLA_DEBUG"))
    try:
        result = command.main(args=arguments, prog_name=name, standalone_mode=False)
        return int(result) if isinstance(result, int) else 0
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except (click.Abort, KeyboardInterrupt):
        # We are leaving: another Ctrl-C would only make it look like something else.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.message)
        return 0
    except click.ClickException as error:
        return _say_misuse(error, name)
    except (HeklaError, OSError, BaseExceptionGroup) as raised:
        if isinstance(told_error(raised), BrokenPipeError):
            # The reader (head, less) went away: not an error.
            silence_output()
            return 0
        if debug:
            raise
        return _say_failure(told_error(raised), name)
    except Exception as error:
        if debug:
            raise
        return _say_bug(error)


def silence_output() -> None:
    """Have nobody hear what is still to be written, so that Python does not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_failure(error: BaseException, program: str) -> int:
    if not isinstance(error, HeklaError | OSError):
        return _say_bug(error)
    if program == "vcctl":
        # parity: scripts around vcctl look for its text on standard output and for its exit status.
        click.echo(describe(error))
        return EXIT_VCCTL_FAILED
    click.echo(f"{_style('error:')} {describe(error)}", err=True)
    if isinstance(error, Misuse):
        return EXIT_MISUSE
    return EXIT_BAD_FILE if getattr(error, "bad_file", False) else EXIT_FAILED


def _say_misuse(error: click.ClickException, program: str) -> int:
    if program == "vcctl":
        from hekla.cli.vcctl_misuse import asked_for_help, in_upstreams_words

        if help_text := asked_for_help(error):
            click.echo(help_text)
            return 0
        # parity: one line, and the status that scripts around vcctl know.
        click.echo(f"Error: {in_upstreams_words(error)}", err=True)
        return EXIT_FAILED
    error.show()
    # Not click's 2: that says of a job that it cannot be placed.
    return EXIT_MISUSE


def _say_bug(error: BaseException) -> int:
    click.echo(f"{_style('error:')} {type(error).__name__}: {error}\nThis is a bug; --debug shows where.", err=True)
    return EXIT_FAILED


def describe(error: BaseException) -> str:
    """One message for a person: what happened and, where we know it, what to do."""
    if isinstance(error, Disconnected):
        return f"cannot reach the cluster: {error}\nIs it running? Start one here with `hekla up`, or check KUBECONFIG."
    if isinstance(error, ApiError) and error.code == 401:
        return "the cluster does not accept these credentials; check --kubeconfig or KUBECONFIG."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error)
    if text.endswith(_UNKNOWN_PATH):
        # How a Kubernetes API server answers for kinds it does not have.
        return (
            f"{text.removesuffix(_UNKNOWN_PATH)}the cluster does not know Volcano's kinds: `hekla install` brings them."
        )
    return text


def _style(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, fg="red", bold=True)
