"""`controlplane completion SHELL`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from controlplane.cli import output
from controlplane.cli.names import Choice

PROGRAM: Final = "controlplane"
VARIABLE: Final = "_CONTROLPLANE_COMPLETE"
"""The variable with which the script asks for completions, as click names it for this program."""
SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print a script after which SHELL completes commands, options and their values.

    In ~/.bashrc or ~/.zshrc: eval "$(controlplane completion bash)", or zsh. In ~/.config/fish/config.fish:
    controlplane completion fish | source
    """
    found = SHELLS[shell](ctx.find_root().command, {}, PROGRAM, VARIABLE)
    output.echo(found.source_template % found.source_vars())
    return 0
