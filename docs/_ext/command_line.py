"""The reference of the command line, from the click commands themselves."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click

from docs._ext.markdown import definitions, escape, line

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "controlplane"


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield every command with its full name and a context, groups before what they hold."""
    from controlplane.cli.main import cli

    yield from _below(PROGRAM, cli, click.Context(cli, info_name=PROGRAM))


def _below(
    name: str, command: click.Command, ctx: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield name, command, ctx
    if isinstance(command, click.Group):
        for sub in command.list_commands(ctx):
            found = command.get_command(ctx, sub)
            assert found is not None
            yield from _below(f"{name} {sub}", found, click.Context(found, ctx, info_name=sub))


def anchor(name: str) -> str:
    """Return the label by which other pages refer to a command."""
    return "cmd-" + name.replace(" ", "-")


def page() -> str:
    """Return the reference: every command with its usage, arguments and options."""
    return "\n\n".join(_entry(name, command, ctx) for name, command, ctx in commands()) + "\n"


def _entry(name: str, command: click.Command, ctx: click.Context) -> str:
    depth = "##" if name.count(" ") <= 1 else "###"
    usage = " ".join([name, *command.collect_usage_pieces(ctx)])
    parts = [f"({anchor(name)})=\n{depth} {name}", f"```text\n{usage}\n```", *_help(command)]
    if isinstance(command, click.Group):
        listed = [
            f"- [{sub}](#{anchor(f'{name} {sub}')}): {escape(_summary(command, ctx, sub))}"
            for sub in command.list_commands(ctx)
        ]
        parts.append("\n".join(listed))
    records = [
        param.get_help_record(ctx)
        for param in command.get_params(ctx)
        if isinstance(param, click.Option)
    ]
    options = [(f"`{head}`", line(text)) for head, text in filter(None, records)]
    if options:
        parts.append(definitions(options))
    return "\n\n".join(parts)


def _summary(group: click.Group, ctx: click.Context, name: str) -> str:
    found = group.get_command(ctx, name)
    assert found is not None
    return found.get_short_help_str(limit=200)


def _help(command: click.Command) -> Iterator[str]:
    r"""Yield the paragraphs of a command's help; those that keep their line breaks (`\b`) as they stand."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield f"```text\n{paragraph.removeprefix(chr(8)).strip(chr(10))}\n```"
        elif paragraph.strip():
            yield line(paragraph)
