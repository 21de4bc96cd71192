"""`controlplane race mutants`: small concurrency mistakes in our own source, and how many of them searches find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from controlplane.cli import interruption, output
from controlplane.cli.names import Choice
from controlplane.cli.options import Finite, format_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.races.mutants.running import Trial

COMPONENTS = ("scheduler", "kubelet", "controllers", "storage", "client", "apiserver")


@click.command(
    "mutants", short_help="Make small mistakes in the components, and count those found."
)
@click.argument("components", nargs=-1, type=Choice(COMPONENTS), metavar="[COMPONENT]...")
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Mutants of each component.",
)
@click.option(
    "--schedules",
    type=click.IntRange(1),
    default=2000,
    show_default=True,
    help="Schedules for each workload at most.",
)
@click.option(
    "--seconds",
    type=Finite(min=0, min_open=True),
    default=30,
    show_default=True,
    help="Seconds for each workload at most.",
)
@click.option(
    "--reach-seconds",
    type=Finite(min=0, min_open=True),
    default=20,
    show_default=True,
    help="Seconds for which each workload runs without a mistake, to see the places that it comes to.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the sample and of the searches."
)
@click.option("--jobs", type=click.IntRange(1), help="Processes. [default: as many as cores]")
@format_option()
def mutants_command(
    components: tuple[str, ...],
    sample: int,
    schedules: int,
    seconds: float,
    reach_seconds: float,
    seed: int,
    jobs: int | None,
    output_format: str,
) -> int:
    """Make one small concurrency mistake at a time in a component, search its churns, and say what found it.

    Mistakes: a guard on a uid or a state left out, two effects in the other order, a notification or a release
    forgotten, expectations ignored, a second read left out, a failure swallowed, a write repeated. Each mutant runs in
    a process of its own. First each workload (a churn, or a part of one) runs without a mistake; a mutant is then
    searched for under the three workloads that come to its place most often. "not reached" means that none does. The
    survivors are listed.
    """
    import os

    from controlplane.races.mutants.running import carry_out, drawn, reach

    components = components or COMPONENTS
    jobs = jobs or os.cpu_count() or 1
    mutants = drawn(components, sample, seed)
    progress = output.Progress()
    done = 0

    def heard(trial: Trial) -> None:
        nonlocal done
        done += 1
        progress.show(f"{done} of {len(mutants)} mutants, the last: {trial.result.outcome}")

    with interruption.interruptible() as ended:
        reached = reach(
            components,
            seconds=reach_seconds,
            seed=seed,
            jobs=jobs,
            heard=lambda workload: progress.show(f"places that {workload} comes to"),
            over=lambda: ended.came,
        )
        trials = carry_out(
            mutants,
            reached,
            schedules=schedules,
            seconds=seconds,
            seed=seed,
            jobs=jobs,
            heard=heard,
            over=lambda: ended.came,
        )
    progress.clear()
    if output_format == "json":
        output.emit_json([each.to_json() for each in trials])
    else:
        _print(trials)
    if ended.came:
        interruption.tell(f"these are {len(trials)} of {len(mutants)} mutants")
        return ended.status
    return 0


def _print(trials: Sequence[Trial]) -> None:
    by_component: dict[str, list[Trial]] = {}
    for each in trials:
        by_component.setdefault(each.component, []).append(each)
    rows = []
    for component, its in by_component.items():
        counts = {name: sum(each.result.outcome == name for each in its) for name in OUTCOMES}
        reached = counts["found"] + counts["survived"]
        share = f"{100 * counts['found'] / reached:.0f} %" if reached else "-"
        rows.append((component, str(len(its)), *(str(counts[name]) for name in OUTCOMES), share))
    numbers = ["MUTANTS", "FOUND", "SURVIVED", "NOT REACHED", "BROKEN", "FOUND OF REACHED"]
    output.table("Mutants", ["COMPONENT", *numbers], rows, numbers)
    for outcome, title in (
        ("found", "Found"),
        ("survived", "Survived"),
        ("not-reached", "Not reached"),
    ):
        chosen = [each for each in trials if each.result.outcome == outcome]
        if chosen:
            output.echo(f"\n{title}:\n")
        for each in chosen:
            output.echo(f"{each.mutant.name}, line {each.mutant.line}: {each.mutant.text}")
            if outcome == "found":
                result = each.result
                output.echo(
                    f"  {result.workload}, schedule {result.schedules}: {result.reason or result.verdict}"
                )


OUTCOMES = ("found", "survived", "not-reached", "broken")
