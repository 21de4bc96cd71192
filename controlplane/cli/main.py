"""Entry point: `controlplane COMMAND`. Commands are loaded late, so that help answers at once."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from controlplane import __version__
from controlplane.cli import debug as switch
from controlplane.cli.names import Group, message

if TYPE_CHECKING:
    from collections.abc import Iterator

READER_GONE = 128 + signal.SIGPIPE
"""The exit status when the reader of standard output has closed its pipe: that of programs which SIGPIPE ends."""

COMMANDS = {
    "run": (
        "controlplane.cli.run",
        "Load manifests or a trace, emulate until settled, print what happened.",
    ),
    "check": (
        "controlplane.cli.check",
        "Will a configuration come to rest, and stay up, under what happens to every cluster?",
    ),
    "serve": (
        "controlplane.cli.serve",
        "Serve a cluster over HTTP, in paced time, to kubectl and every other client.",
    ),
    "import": (
        "controlplane.cli.importing",
        "Bring the objects of a cluster, or exported files, into a folder of manifests.",
    ),
    "time": (
        "controlplane.cli.time_control",
        "Pause, step and resume time in a served cluster.",
    ),
    "nodes": (
        "controlplane.cli.nodes",
        "Add nodes to a served cluster.",
    ),
    "objects": (
        "controlplane.cli.objects",
        "Export, restore or reset the objects of a served cluster.",
    ),
    "race": (
        "controlplane.cli.race",
        "List, run, explore and replay the catalogue of published races.",
    ),
    "explore": (
        "controlplane.cli.explore",
        "Search the schedules of a scenario of yours for a broken invariant.",
    ),
    "operator": (
        "controlplane.cli.operator",
        "Try an operator of yours, unmodified, under faults.",
    ),
    "confirm": (
        "controlplane.cli.confirm",
        "Try a race on real components that you have.",
    ),
    "replay": (
        "controlplane.cli.replay",
        "Repeat any recording exactly.",
    ),
    "fork": (
        "controlplane.cli.fork",
        "Go on otherwise from a step of a recording: another schedule, or other objects.",
    ),
    "shrink": (
        "controlplane.cli.shrink",
        "Make a recorded finding short, and tell what happened.",
    ),
    "logs": (
        "controlplane.cli.logs",
        "Ask what a run recorded: what happened to an object, and why.",
    ),
    "bench": (
        "controlplane.cli.bench",
        "How fast it is, by upstream's benchmark files.",
    ),
    "completion": (
        "controlplane.cli.completion",
        "Print the completion script of a shell: bash, zsh or fish.",
    ),
}


class ReaderGone(Exception):
    """The reader of standard output has closed its pipe. Click would end with status 1 for a BrokenPipeError."""


@contextmanager
def _reader_gone() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


class LazyGroup(Group):
    """A group of commands known by name and summary; a command is imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of the manual."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command itself, imported now."""
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        gc.disable()  # what an import makes stays, and need not be looked through as it comes
        try:
            command: click.Command = import_module(found[0]).command
        finally:
            gc.freeze()
            gc.enable()
        return command

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line. Raises ReaderGone, as help may be printed."""
        with _reader_gone():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises ReaderGone."""
        with _reader_gone():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table: nothing is imported for help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="controlplane")
@click.option("--debug", is_flag=True, help="Print tracebacks of defects as they are.")
def cli(debug: bool) -> None:
    """A Kubernetes control plane in one process, with every choice under control.

    Exit status: 0 all well; 1 an invariant broke or a search found a race; 2 wrong use; 3 a defect
    of this program; 130 Ctrl-C; 141 the reader of the output has gone, as `head` goes.
    """
    switch.ON = debug


def main() -> None:
    """Run the command line. Bad input ends with one line on standard error and exit status 2."""
    status = _run()
    with suppress(OSError):  # reported already, or the output is closed
        sys.stdout.flush()
    # Nothing is left to be done, and the system frees a million small objects faster than Python does.
    os._exit(status)


def _run() -> int:
    """The exit status of the command."""
    try:
        try:
            status = cli.main(standalone_mode=False)
        except click.exceptions.Abort:
            click.echo("controlplane: stopped", err=True)
            return 130
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return 2
        except click.ClickException as error:
            click.echo(f"controlplane: {_one_line(error)}", err=True)
            return 2
        except ReaderGone:
            from controlplane.cli.output import Outcome

            return Outcome.status or READER_GONE
        except Exception as error:
            return _told(error)
    except OSError:  # standard error takes nothing either
        return 2
    return status if isinstance(status, int) else 0


def _told(error: Exception) -> int:
    """Say in one line what went wrong, keep the traceback of a defect; the exit status."""
    import traceback

    refused = _refused_file(error)
    usage = bool(refused) or _is_usage_error(error)
    text = "".join(traceback.format_exception(error))
    if switch.ON and (not usage or error.__cause__ is not None):
        click.echo(text.rstrip(), err=True)
    if usage:
        click.echo(f"controlplane: {refused or error}", err=True)
        return 2
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    kept = ""
    if not switch.ON:
        from controlplane.cli.reporting import saved

        kept = f"; the traceback: {saved(text)}, or --debug"
    click.echo(f"controlplane: defect: {line}{kept}", err=True)
    return 3


_OF_THE_SYSTEM = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR,
    errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EIO,
)  # fmt: skip
"""Errors of the system about a file or folder that the command was given."""


def _refused_file(error: Exception) -> str:
    """Return the line for a file that the system refuses to open, read or write; "" for other errors."""
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return ""


_LONGEST = 1000
"""Letters of a line that quotes what was given."""


def _one_line(error: click.ClickException) -> str:
    text = " ".join(message(error).split())
    for jargon, word in (("integer range", "whole number"), ("float range", "number")):
        text = text.replace(f"is not a valid {jargon}", f"is not a valid {word}")
    return (
        text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    )


def _is_usage_error(error: Exception) -> bool:
    from actors.errors import RecordingError
    from actors.errors import UsageError as RuntimeUsageError
    from controlplane.errors import UsageError

    return isinstance(error, UsageError | RecordingError | RuntimeUsageError)
