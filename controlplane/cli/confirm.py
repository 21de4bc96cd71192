"""`controlplane confirm TARGET`: does a race happen on real components?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from controlplane.cli import output
from controlplane.cli.names import Choice
from controlplane.cli.options import ScenarioCommand

if TYPE_CHECKING:
    from controlplane.scenarios.engine.scenario import Scenario

FORMATS: Final = ("text", "json")


def _scenario(target: str) -> Scenario:
    """The scenario of a race, as real components can be tried in it, or of a file. Raises UsageError."""
    from pathlib import Path

    from controlplane.cli.explore import find
    from controlplane.races.boundary import form

    return find(target) if Path(target).exists() else form(target).scenario


@click.command(
    "confirm",
    cls=ScenarioCommand,
    find=_scenario,
    short_help="Try a race on real components that you have.",
)
@click.argument("target", metavar="TARGET")
@click.option(
    "--component",
    "components",
    multiple=True,
    required=True,
    metavar="NAME=COMMAND",
    help="A program that takes the place of an emulated process: kube-scheduler or"
    " kube-controller-manager, and the path of the program, or a command in which"
    " {kubeconfig} and {controllers} stand. Repeatable.",
)
@click.option(
    "--times",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How many attempts; what users draw differs from one to the next.",
)
@click.option(
    "--settle",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait once the workload is done.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    metavar="S",
    help="The longest that one attempt may take.",
)
@click.option("--format", "form", type=Choice(FORMATS), default="text", show_default=True)
def command(
    scenario: Scenario,
    asked: dict[str, Any],
    components: tuple[str, ...],
    times: int,
    settle: float,
    seconds: float,
    form: str,
    **_: Any,
) -> int:
    """Try a race on real components: the world of TARGET, a race's number or a scenario's file, is served over HTTP,
    and the programs run in it in place of the emulated processes, in real time, under the race's plan or that of
    --plan. Races with such a plan: 140177, 140177-successor, 141255, 96582, victim and victim-condition
    (kube-scheduler); 138036, 141568, 141568-podgc and 26120 (kube-controller-manager).

    The verdict is "confirmed N of M" (the invariant broke in N of the M attempts that reached the interleaving),
    "refuted" (it was reached, and nothing broke), or "not reached".

    Exit status 1 when it is confirmed.
    """
    from controlplane.operators.components import component_of
    from controlplane.operators.loops.confirming import How, confirm
    from controlplane.scenarios.engine.plan import plan_of

    programs = [component_of(each) for each in components]
    how = How(times=times, seed=asked.get("seed", 0), settle_s=settle, limit_s=seconds)
    plan = plan_of(scenario, **asked)
    found = confirm(plan, scenario.name, programs, how, tell=output.complain)
    if form == "json":
        output.emit_json(found.to_json())
    else:
        output.write(f"{found.name}: {found.verdict}\n")
    return 1 if found.confirmed else 0
