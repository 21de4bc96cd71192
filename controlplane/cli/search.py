"""Searching the schedules of any scenario, and replaying any recording: what `race` and `explore` share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from controlplane.cli import output, reporting
from controlplane.cli.options import driver_option, format_option, out_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Exploration
    from controlplane.scenarios.execution import Execution
    from controlplane.scenarios.exploring import Campaign
    from controlplane.scenarios.scenario import Scenario

SCHEDULES = 1000


def searchable(scenario: Scenario) -> Scenario:
    """The scenario with a strategy that looks for something, unless it or the user names another."""
    return evolve(scenario, defaults={"strategy": "random-walk", **scenario.defaults})


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a search takes besides the scenario's options."""
    for option in (
        format_option(),
        out_option("the finding's recording, log and objects"),
        click.option("--all", "keep_going", is_flag=True, help="Do not stop at the first finding."),
        click.option(
            "--seconds",
            type=click.FloatRange(min=0, min_open=True),
            metavar="S",
            help="Stop after so many seconds of wall time.",
        ),
        click.option(
            "--schedules",
            type=click.IntRange(1),
            help=f"How many schedules to try at most. [default: {SCHEDULES}, without end with --seconds]",
        ),
    ):
        function = option(function)
    return function


def search(
    scenario: Scenario,
    asked: dict[str, Any],
    *,
    schedules: int | None,
    seconds: float | None,
    keep_going: bool,
    out: Path | None,
    output_format: str,
    own: str = "",
) -> int:
    """Search, print what came of it, and keep the first finding; the exit status."""
    from controlplane.scenarios.exploring import Campaign
    from controlplane.scenarios.plan import plan_of

    plan = plan_of(scenario, **asked)
    campaign = Campaign(plan, plan["strategy"])
    limit = schedules or (SCHEDULES if seconds is None else 1 << 62)
    found, wall = _explore(campaign, limit, seconds, stop_at_first=not keep_going)
    done: Execution | None = None
    left: tuple[str, ...] = ()
    if found.findings:
        finding = found.findings[0]
        done = campaign.again(finding)
        if out is not None:
            left = done.save(out, campaign.recording(finding))
    if output_format == "json":
        output.emit_json(reporting.exploration_json(campaign, found, wall))
    else:
        reporting.print_exploration(campaign, found, wall, own)
        if done is not None:
            reporting.print_timeline(done.world)
            if out is not None:
                reporting.print_left(out, left)
                output.echo(f"repeat it with controlplane replay {out / 'run.rec'}")
            else:
                output.echo(
                    "keep it with --out DIR, repeat it with controlplane replay DIR/run.rec"
                )
    if done is not None:
        reporting.tell_traceback(done.traceback, out)
    return 1 if found.findings else 0


def _explore(
    campaign: Campaign, schedules: int, seconds: float | None, *, stop_at_first: bool
) -> tuple[Exploration, float]:
    progress = output.Progress()
    started = time.perf_counter()
    total = f" of {schedules}" if schedules < 1 << 62 else ""

    def show(done: int) -> None:
        rate = done / (time.perf_counter() - started)
        progress.show(f"schedule {done}{total}, {rate:.0f} schedules/s")

    over = None if seconds is None else lambda: time.perf_counter() - started >= seconds
    found = campaign.explore(
        schedules,
        seed=campaign.plan["seed"],
        stop_at_first=stop_at_first,
        progress=show if progress.on else None,
        over=over,
    )
    wall = time.perf_counter() - started
    progress.clear()
    return found, wall


@click.command("replay", short_help="Repeat any recording exactly.")
@click.argument("file", type=click.Path(path_type=Path), metavar="RECORDING")
@out_option()
@driver_option("bare")
@format_option()
def replay_command(file: Path, out: Path | None, driver: Any, output_format: str) -> int:
    """Repeat a recorded run exactly; stop at the first difference.

    The recording names its scenario, whose source must be what it was, and its options. Exit status
    1 when the run ends badly, as recorded or otherwise.
    """
    from controlplane.scenarios import replaying

    recording = replaying.load(file)
    plan = replaying.plan_of_recording(recording, file)
    run = replaying.replayed(plan, recording)
    result = run.execute(driver)
    same = result.trace_hash == recording.trace_hash
    left = run.save(out, recording) if out is not None else ()
    if output_format == "json":
        output.emit_json(
            {
                "scenario": plan.scenario.name,
                "verdict": result.verdict,
                "reason": result.reason,
                "trace_hash": result.trace_hash,
                "same_trace": same,
            }
        )
    else:
        reporting.print_timeline(run.world)
        output.echo(f"{reporting.plan_text(plan)}")
        output.echo(f"{result.verdict}: {result.reason}")
        told = "the same as recorded" if same else f"NOT as recorded: {recording.trace_hash}"
        output.echo(f"trace {result.trace_hash}: {told}")
        reporting.print_left(out, left)
    reporting.tell_traceback(run.traceback, out)
    return 0 if result.ok and same else 1
