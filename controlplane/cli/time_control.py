"""`controlplane time`: how virtual time goes in a served cluster."""

from __future__ import annotations

from typing import Any

import click

from controlplane.cli import output
from controlplane.cli.names import Group
from controlplane.cli.options import Finite
from controlplane.cli.served import Where, in_served_cluster

PATH = "/controlplane/time"


@click.group("time", cls=Group, short_help="Pause, step and resume time in a served cluster.")
@in_served_cluster
def command() -> None:
    """Control virtual time in a cluster that `controlplane serve` is serving. Clients may look on meanwhile."""


@command.command("show")
@click.pass_obj
def show(kubeconfig: Where) -> None:
    """Say how time goes."""
    _ask(kubeconfig, None)


@command.command("pause")
@click.pass_obj
def pause(kubeconfig: Where) -> None:
    """Stop time; requests are answered, nothing else happens."""
    _ask(kubeconfig, {"action": "pause"})


@command.command("resume")
@click.pass_obj
def resume(kubeconfig: Where) -> None:
    """Let time go on."""
    _ask(kubeconfig, {"action": "resume"})


@command.command("step")
@click.argument("seconds", type=Finite(min=0))
@click.pass_obj
def step(kubeconfig: Where, seconds: float) -> None:
    """Let this number of virtual SECONDS pass as fast as possible, then pause; returns when it is done."""
    _ask(kubeconfig, {"action": "step", "seconds": seconds})


@command.command("speed")
@click.argument("speed", metavar="N|max")
@click.pass_obj
def speed(kubeconfig: Where, speed: str) -> None:
    """Set how many virtual seconds pass in a second."""
    wanted: float | str = "max"
    if speed != "max":
        try:
            wanted = float(speed.removesuffix("x"))
        except ValueError:
            raise click.BadParameter(f"{speed!r}: expected a number or max") from None
    _ask(kubeconfig, {"action": "speed", "speed": wanted})


def _ask(kubeconfig: Where, action: dict[str, Any] | None) -> None:
    from controlplane.apiserver.http import kubeconfig as files
    from controlplane.serving.asking import ask

    found = ask(files.read(*kubeconfig), "GET" if action is None else "POST", PATH, action)
    pace = "paused" if found["paused"] else f"speed {found['speed']}"
    output.echo(f"virtual time {found['virtual']:.3f} s, {pace}")
