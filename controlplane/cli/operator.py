"""`controlplane operator FILE`: an operator of your own, unmodified, under perturbation plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from attrs import frozen

from controlplane.cli import output
from controlplane.cli.names import Choice
from controlplane.cli.options import grouped

if TYPE_CHECKING:
    from controlplane.operators.exploring import Limits

FORMATS: Final = ("text", "json")


@frozen
class Search:
    """The options that say how much is tried."""

    seconds: float
    plans: int
    calm: int
    repeats: int
    jobs: int
    pairs: bool
    drifts: bool

    def limits(self) -> Limits:
        """Return the same for a campaign."""
        from controlplane.operators.exploring import Limits

        return Limits(
            self.seconds, self.plans, self.calm, self.repeats, self.jobs, self.pairs, self.drifts
        )


@click.command("operator", short_help="Try an operator of yours, unmodified, under faults.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Wall time after which no further plan is begun.",
)
@click.option(
    "--plans", type=click.IntRange(min=0), default=0, help="How many plans to try; 0: no limit."
)
@click.option(
    "--plan",
    "plan_files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Try this plan, and no generated ones; Sieve's test plans are read, too. Repeatable.",
)
@click.option(
    "--calm",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Runs without faults, with which the others are compared.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How often a plan with an alarm is repeated, with longer windows.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs at once."
)
@click.option("--pairs/--no-pairs", default=True, help="Whether plans with two faults follow.")
@click.option(
    "--drifts",
    is_flag=True,
    help="Before the plans: change and delete what the operator owns, take away what it needs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Leave the report, each finding's plan, log and recording; a campaign that is there goes on.",
)
@click.option("--format", "form", type=Choice(FORMATS), default="text", show_default=True)
@grouped("search", Search)
def command(
    file: Path, search: Search, plan_files: tuple[Path, ...], out: Path | None, form: str
) -> int:
    """Run an operator as the container of its pod, in an emulated cluster, and try what it survives: a crash after
    each of its writes, errors, stale caches after a restart, states that it never saw, conflicts, time-outs.

    FILE (YAML) names its manifests, the command that stands for its image, and a workload. First the workload is
    performed without faults; then each plan is compared with that. An alarm counts if it repeats.

    Exit status 1 when something is wrong.
    """
    from controlplane.operators import description, exploring
    from controlplane.operators.report import as_text, as_tree

    operator = description.read(file)
    plans = [exploring.plan_of_file(name, operator) for name in plan_files]
    limits = search.limits()
    if plans:
        from attrs import evolve

        limits = evolve(limits, plans=len(plans) + len(operator.plans))
    if out is not None:
        from controlplane.scenarios.engine.execution import check_folder

        check_folder(out)
    result = exploring.explore(operator, limits, plans=plans, folder=out, tell=_tell)
    if form == "json":
        output.emit_json(as_tree(result))
    else:
        output.write(as_text(result, _again(file, out)))
    return 0 if result.ok else 1


def _tell(line: str) -> None:
    output.complain(line)


def _again(file: Path, out: Path | None) -> str:
    """Return the command that tries a finding's plan again, without its file's name."""
    return "" if out is None else f"controlplane operator {file} --plan {out}/"
