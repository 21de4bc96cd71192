"""Names on the command line: an unknown command, option or value is answered with the nearest names."""

from __future__ import annotations

from typing import Any

import click

from controlplane.errors import nearest, unknown_name


class Group(click.Group):
    """A group of commands that suggests the nearest for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names. Raises click.UsageError for an unknown one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            ctx.fail(unknown_name("command", name, self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


class Choice(click.Choice[str]):
    """One of several names; an unknown one is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises click.BadParameter."""
        if value not in self.choices:
            what = max(param.opts, key=len).lstrip("-") if param is not None else "value"
            self.fail(unknown_name(what, value, filter(None, self.choices)), param, ctx)
        return super().convert(value, param, ctx)


def message(error: click.ClickException) -> str:
    """Return the text of an error of the command line, with the nearest names of an unknown option."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = [
            name
            for param in error.ctx.command.get_params(error.ctx)
            if isinstance(param, click.Option)
            for name in (*param.opts, *param.secondary_opts)
        ]
        return unknown_name("option", error.option_name, nearest(error.option_name, known))
    return error.format_message()
