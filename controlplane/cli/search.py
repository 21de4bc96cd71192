"""Searching the schedules of any scenario, and replaying any recording: what `race` and `explore` share."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from controlplane.cli import output, reporting
from controlplane.cli.options import driver_option, format_option, out_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import ChoiceList, Exploration
    from controlplane.scenarios.exploring import Campaign
    from controlplane.scenarios.plan import Plan
    from controlplane.scenarios.scenario import Scenario
    from controlplane.scenarios.shrinking import Short

SCHEDULES = 1000
CHECK_EVERY = 20
SHRINKS = 600
STORY = "story.txt"


def searchable(scenario: Scenario) -> Scenario:
    """The scenario with a strategy that looks for something, unless it or the user names another."""
    return evolve(scenario, defaults={"strategy": "portfolio", **scenario.defaults})


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a search takes besides the scenario's options."""
    for option in (
        format_option(),
        out_option("the finding's recording, log and objects"),
        click.option(
            "--shrink",
            "shrinks",
            type=click.IntRange(0),
            default=SHRINKS,
            show_default=True,
            help="Runs that making a finding short may take; 0 leaves it as it was found.",
        ),
        click.option("--all", "keep_going", is_flag=True, help="Do not stop at the first finding."),
        click.option(
            "--check-determinism",
            is_flag=True,
            help=f"Run one of {CHECK_EVERY} schedules twice, to see that only its choices decide.",
        ),
        click.option(
            "--dask",
            metavar="ADDRESS",
            help="Search on the workers of a Dask cluster (needs the extra 'dask').",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            help="Processes that search. [default: as many as there are cores]",
        ),
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
    jobs: int | None,
    dask: str | None,
    check_determinism: bool,
    keep_going: bool,
    shrinks: int,
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
    found, wall = _explore(
        campaign,
        limit,
        seconds,
        jobs or os.cpu_count() or 1,
        dask,
        stop_at_first=not keep_going,
        check_every=CHECK_EVERY if check_determinism else 0,
    )
    if not found.findings:
        if output_format == "json":
            output.emit_json(reporting.exploration_json(campaign, found, wall))
        else:
            reporting.print_exploration(campaign, found, wall, own)
        return 0
    finding = found.findings[0]
    short = _short(plan, finding.result.choices, shrinks)
    done = campaign.again(finding) if short is None else short.failing
    left: tuple[str, ...] = ()
    if out is not None:
        recording = campaign.recording(finding) if short is None else short.recording()
        left = (*done.save(out, recording), *_save_story(short, out))
    if output_format == "json":
        told = reporting.exploration_json(campaign, found, wall)
        output.emit_json({**told, **({} if short is None else short_json(short))})
    else:
        reporting.print_exploration(campaign, found, wall, own)
        if short is None:
            reporting.print_timeline(done.world)
        else:
            _print_story(short)
        if out is not None:
            reporting.print_left(out, left)
            output.echo(f"repeat it with controlplane replay {out / 'run.rec'}")
        else:
            output.echo("keep it with --out DIR, repeat it with controlplane replay DIR/run.rec")
    reporting.tell_traceback(done.traceback, out)
    return 1


def _short(plan: Plan, choices: ChoiceList, runs: int) -> Short | None:
    """The finding made short, unless that was not wanted."""
    if not runs:
        return None
    from controlplane.scenarios.shrinking import shorten

    return shorten(plan, choices, runs=runs)


def _print_story(short: Short) -> None:
    from controlplane.scenarios.story import story_of

    shrunk = short.shrunk
    output.echo(
        f"\nIn {plural(shrunk.runs, 'run')} it came down to {plural(shrunk.deviations, 'decision')} of the schedule"
        f" and {plural(shrunk.operations, 'draw')} of the workload:\n"
    )
    for line in story_of(short).lines():
        output.echo(f"  {line}")
    output.echo("")


def plural(count: int, word: str) -> str:
    """A count with its word."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _save_story(short: Short | None, out: Path) -> tuple[str, ...]:
    """Leave the story beside log and recording."""
    if short is None:
        return ()
    from controlplane.scenarios.story import story_of

    draft = out / f"{STORY}.part"
    draft.write_text("\n".join(story_of(short).lines()) + "\n", encoding="utf-8")
    draft.replace(out / STORY)
    return (STORY,)


def short_json(short: Short) -> dict[str, Any]:
    """A finding's short form and its story, for programs."""
    from controlplane.scenarios.story import story_of

    shrunk = short.shrunk
    return {
        "shrunk": {
            "deviations": shrunk.deviations,
            "operations": shrunk.operations,
            "demotions": [str(each) for each in shrunk.demotions],
            "runs": shrunk.runs,
            "remark": shrunk.remark,
            "trace_hash": short.failing.result.trace_hash,
        },
        "story": story_of(short).to_json(),
    }


def _explore(
    campaign: Campaign,
    schedules: int,
    seconds: float | None,
    jobs: int,
    dask: str | None,
    **how: Any,
) -> tuple[Exploration, float]:
    from controlplane.scenarios import parallel

    progress = output.Progress()
    started = time.perf_counter()
    total = f" of {schedules}" if schedules < 1 << 62 else ""

    def show(done: int) -> None:
        rate = done / (time.perf_counter() - started)
        progress.show(f"schedule {done}{total}, {rate:.0f} schedules/s")

    how |= {
        "seed": campaign.plan["seed"],
        "progress": show if progress.on else None,
        "over": None if seconds is None else lambda: time.perf_counter() - started >= seconds,
    }
    plan, strategy = campaign.plan, campaign.strategy
    if dask is not None:
        found = _on_dask(dask, plan, strategy, schedules, how)
    elif jobs > 1 and schedules > parallel.BATCH and parallel.can_be_dealt_out(plan, strategy):
        found = parallel.explore(plan, strategy, schedules, jobs=jobs, **how)
    else:
        found = campaign.explore(schedules, **how)
    wall = time.perf_counter() - started
    progress.clear()
    return found, wall


def _on_dask(
    address: str, plan: Plan, strategy: str, schedules: int, how: dict[str, Any]
) -> Exploration:
    """The same search on the workers of a Dask cluster."""
    from controlplane.errors import UsageError
    from controlplane.scenarios import parallel

    if not parallel.can_be_dealt_out(plan, strategy):
        raise UsageError(f"--dask: strategy {strategy} enumerates: its runs cannot be dealt out")
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--dask: not installed: pip install 'controlplane[dask]'") from error
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(f"--dask {address}: cannot be reached: {error}") from error
    with client:
        workers = max(1, sum(client.nthreads().values()))
        executor = client.get_executor()
        return parallel.explore(plan, strategy, schedules, jobs=workers, executor=executor, **how)


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


@click.command("shrink", short_help="Make a recorded finding short, and tell what happened.")
@click.argument("file", type=click.Path(path_type=Path), metavar="RECORDING")
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=SHRINKS,
    show_default=True,
    help="Runs that it may take.",
)
@out_option("the short recording, its log, objects and story")
@format_option()
def shrink_command(file: Path, runs: int, out: Path | None, output_format: str) -> int:
    """Bring a recorded finding down to the few decisions that matter.

    Exit status 1 when the recording fails, as a finding does; 2 when it does not, and there is
    nothing to shrink.
    """
    from controlplane.errors import UsageError
    from controlplane.scenarios import replaying
    from controlplane.scenarios.shrinking import shorten

    recording = replaying.load(file)
    if recording.verdict in {"quiescent", "until", "stopped"}:
        raise UsageError(
            f"{file}: the recorded run ended well ({recording.verdict}): nothing to shrink"
        )
    if recording.inputs:
        raise UsageError(f"{file}: a served session takes input from outside: it cannot be shrunk")
    plan = replaying.plan_of_recording(recording, file)
    short = shorten(plan, recording.choices, runs=runs)
    left: tuple[str, ...] = ()
    if out is not None:
        left = (*short.failing.save(out, short.recording()), *_save_story(short, out))
    if output_format == "json":
        output.emit_json(short_json(short))
    else:
        _print_story(short)
        reporting.print_left(out, left)
    return 1
