"""Options of commands that speak to a served cluster: the kubeconfig that `serve` wrote, and a cluster in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click

DEFAULT = "controlplane.kubeconfig"
Where = tuple[Path, str]
"""A kubeconfig, and the name of one of its clusters: "" for that of the current context."""


def in_served_cluster(group: Callable[[], None]) -> Callable[..., None]:
    """Give a group of commands the two options; its commands have their `Where` as `ctx.obj`."""

    @click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"The file that serve wrote [default: $KUBECONFIG, else {DEFAULT}].",
    )
    @click.option(
        "--name", default="", help="Which of its clusters [default: the current context]."
    )
    @click.pass_context
    def command(ctx: click.Context, kubeconfig: Path | None, name: str) -> None:
        ctx.obj = kubeconfig or Path(os.environ.get("KUBECONFIG") or DEFAULT), name

    command.__doc__ = group.__doc__
    return command
