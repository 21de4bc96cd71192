"""Searching the schedules of any scenario, and replaying any recording: what `race` and `explore` share."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from controlplane.cli import debug, interruption, output, reporting
from controlplane.cli.ci_formats import FORMATS, Report, place_of
from controlplane.cli.options import (
    allow_code_option,
    allowed_code,
    driver_option,
    format_option,
    out_option,
)
from controlplane.cli.search_options import NO_LIMIT, SHRINKS, Results, SearchLimits
from controlplane.errors import UsageError, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.choices import ChoiceList
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Scenario
    from controlplane.scenarios.search.corpus import Corpus
    from controlplane.scenarios.search.exploring import Campaign
    from controlplane.scenarios.search.naming import Cause
    from controlplane.scenarios.search.parallel import Limits
    from controlplane.scenarios.search.shrinking import Short
    from controlplane.scenarios.search.tally import Failing, Identity, Seen, Tally

STORY = "story.txt"
PLAN_FILE = "finding.plan"


def searchable(scenario: Scenario) -> Scenario:
    """The scenario with a strategy that looks for something, unless it or the user names another."""
    return evolve(scenario, defaults={"strategy": "portfolio", **scenario.defaults})


def search(
    scenario: Scenario,
    asked: dict[str, Any],
    limits: SearchLimits,
    results: Results,
    own: str = "",
) -> int:
    """Search, print what came of it, and keep what was found; the exit status.

    Ctrl-C ends the search, or the shrinking of what was found; the rest is done with what is there.
    """
    from controlplane.scenarios.engine.execution import check_folder
    from controlplane.scenarios.engine.plan import plan_of
    from controlplane.scenarios.search.exploring import Campaign

    plan = plan_of(scenario, **asked)
    if limits.new:
        from controlplane.scenarios.search.naming import open_races, repaired

        races = [each for each in open_races(plan.gates) if each.number not in plan["without_fix"]]
        plan = evolve(plan, gates=repaired(plan.gates, tuple(races)))
    if not plan.settled().invariants():
        output.complain(
            f"controlplane: scenario {scenario.name!r} has no invariants: only exceptions, deadlocks and"
            " runs without end count as broken"
        )
    campaign = Campaign(plan, plan["strategy"])
    kept = None if results.corpus is None else _corpus(results.corpus, campaign)
    if results.out is not None:
        check_folder(results.out)
    with interruption.interruptible() as ended:
        return _searched(campaign, ended, limits, results, kept, own)


def _searched(
    campaign: Campaign,
    ended: interruption.Interruption,
    limits: SearchLimits,
    results: Results,
    kept: Corpus | None,
    own: str,
) -> int:
    from controlplane.scenarios.search.exploring import Campaign
    from controlplane.scenarios.search.naming import Cause, cause_of

    out, shrinks, output_format = results.out, results.shrinks, results.output_format
    plan = campaign.plan
    earlier = 0 if kept is None else kept.tally.schedules
    known = () if kept is None else [each.identity for each in kept.tally.failing]
    retried = [] if kept is None else _retried(kept, output_format)
    found, wall = _explore(campaign, limits, kept, ended)
    if ended.came:
        shrinks = 0
    new = [each for each in found.failing if each.identity not in known]
    shown = min(new or found.failing, key=lambda each: each.length, default=None)
    status = output.Outcome.status = int(shown is not None)
    if output_format == "table":
        _whether_read(lambda: reporting.print_exploration(campaign, found, wall, own, earlier))
        _whether_read(lambda: _print_unattended(campaign, ended))
    if ended.came:
        interruption.tell(f"this is what {plural(found.schedules - earlier, 'schedule')} showed")
        status = output.Outcome.status = ended.status
    if shown is None:
        if output_format == "json":
            told = reporting.exploration_json(campaign, found, wall, earlier)
            output.emit_json({**told, **({"findings_tried_again": retried} if retried else {})})
        elif output_format in FORMATS:
            _emit_report(plan, found, wall, output_format)
        return status
    short = _short(plan, shown, shrinks, ended)
    done = (
        Campaign(shown.plan(plan), campaign.strategy).under_choices(shown.choices)
        if short is None
        else short.failing
    )
    shorts = {shown.identity: short}
    for each in new:
        if each is not shown:
            shorts[each.identity] = _short(plan, each, shrinks, ended)
    causes = {
        identity: cause_of(its, lambda: ended.came)
        for identity, its in shorts.items()
        if its is not None
    }
    cause = causes.get(shown.identity, Cause())
    left, unwritten = reporting.kept(done, out)
    try:
        if out is not None and unwritten is None:
            left = (*left, *_save_story(short, out))
        if kept is not None:
            for each in new:
                its = shorts[each.identity]
                if its is not None:
                    its.failing.save(kept.place(each))
                    _save_story(its, kept.place(each))
    except UsageError as error:
        unwritten = error
    if output_format == "json":
        told = reporting.exploration_json(campaign, found, wall, earlier)
        for line, each in zip(told["findings"], found.failing, strict=True):
            if each.identity in causes:
                line["cause"] = causes[each.identity].to_json()
        again = {"findings_tried_again": retried} if retried else {}
        output.emit_json({**told, **again, **({} if short is None else short_json(short, cause))})
    elif output_format in FORMATS:
        _emit_report(plan, found, wall, output_format, shown, short, causes)
    else:
        if short is None:
            reporting.print_timeline(done.world)
        else:
            _print_story(short, cause)
        reporting.print_causes([each for each in new if each is not shown], causes)
        _tell_where(plan, out, left, kept)
    reporting.tell_traceback(done.traceback, out)
    if unwritten is not None:
        output.complain(f"controlplane: {unwritten}")
    return status


def _retried(kept: Corpus, output_format: str) -> list[dict[str, Any]]:
    """Try the findings of the corpus again if the code has changed since, and print what came of each."""
    told = []
    for number, attempt in kept.try_again():
        told.append({"number": number, "outcome": attempt.outcome, "detail": attempt.detail})
        if output_format == "table":
            output.echo(f"finding {number} on the changed code: {attempt}")
    return told


def _emit_report(
    plan: Plan,
    found: Tally,
    wall: float,
    output_format: str,
    shown: Failing | None = None,
    short: Short | None = None,
    causes: Mapping[Identity, Cause] | None = None,
) -> None:
    """Print a search in a format of CI systems."""
    from controlplane.scenarios.search.story import story_of

    file, line = place_of(plan)
    story = () if short is None else story_of(short).lines()
    report = Report(
        plan.scenario.name,
        file,
        line,
        found.failing,
        found.schedules,
        wall,
        shown,
        tuple(story),
        {identity: tuple(each.lines()) for identity, each in (causes or {}).items()},
    )
    output.echo(FORMATS[output_format](report))


def _whether_read(tell: Callable[[], None]) -> None:
    """Print, even to a closed pipe: what was found is kept before the command ends."""
    with suppress(BrokenPipeError):
        tell()


def _print_unattended(campaign: Campaign, ended: interruption.Interruption) -> None:
    """Print which objects of the plain run have no controller; nothing after an interruption."""
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.engine.unattended_kinds import note_of_all, note_of_unasked

    if not ended.came and campaign.plan.scenario.origin is not None:
        plain = Execution(campaign.plan)
        plain.execute("bare")
        for note in (note_of_all(plain), note_of_unasked(plain.cluster.config)):
            if note:
                output.echo(note)


def _corpus(folder: Path, campaign: Campaign) -> Corpus:
    """The corpus of this search. Raises UsageError."""
    from controlplane.scenarios.search import parallel
    from controlplane.scenarios.search.corpus import Corpus

    if parallel.enumerates(campaign.strategy):
        raise UsageError(
            f"--corpus: strategy {campaign.strategy} enumerates: its search cannot go on later"
        )
    return Corpus(folder, campaign.plan, campaign.strategy, campaign.plan["seed"])


def _tell_where(plan: Plan, out: Path | None, left: tuple[str, ...], kept: Corpus | None) -> None:
    from controlplane.scenarios.engine.allowed_code import allowance

    allow = allowance(plan.header())
    if out is not None and left:
        reporting.print_left(out, left)
        output.echo(f"repeat it with controlplane replay {out / 'run.rec'}{allow}")
    elif kept is not None:
        output.echo(f"kept in {kept.folder}: the same command goes on from there")
    else:
        output.echo(
            f"keep it with --out DIR, repeat it with controlplane replay DIR/run.rec{allow}"
        )


def _short(plan: Plan, found: Failing, runs: int, ended: interruption.Interruption) -> Short | None:
    """The finding made short, unless that was not wanted or its choices do not decide."""
    if not runs or found.verdict == "diverged":
        return None
    return _shortened(found.plan(plan), found.choices, runs, ended)


def _shortened(
    plan: Plan, choices: ChoiceList, runs: int, ended: interruption.Interruption
) -> Short:
    """A failing run made short, with its progress on standard error."""
    from controlplane.scenarios.search.shrinking import shorten

    progress = output.Progress()
    told = partial(_tell_shrinking, progress, runs)
    short = shorten(plan, choices, runs=runs, over=lambda: ended.came, progress=told)
    progress.clear()
    return short


def _tell_shrinking(progress: output.Progress, runs: int, taken: int) -> None:
    progress.show(f"making the finding short: {taken} runs of about {runs}")


def _print_story(short: Short, cause: Cause) -> None:
    from controlplane.scenarios.search.story import story_of

    shrunk = short.shrunk
    runs, decisions = (
        plural(shrunk.runs, "run"),
        plural(shrunk.deviations, "decision"),
    )
    draws = plural(shrunk.operations, "draw")
    output.echo(
        f"\nIn {runs} it came down to {decisions} of the schedule and {draws} of the workload:\n"
    )
    for line in story_of(short).lines():
        output.echo(f"  {line}")
    output.echo("")
    for line in cause.lines():
        output.echo(f"{line}\n")
    _print_plan(short)


def _print_plan(short: Short) -> None:
    """Print the plan by which the finding can be repeated on changed code."""
    if not short.lines and not short.shrunk.demotions:
        return  # it breaks with the default schedule
    if not short.lines:
        output.echo("In-process: no plan of one or two messages breaks the same by itself.\n")
        return
    output.echo("As a plan (--plan FILE repeats it on changed code):\n")
    for line in (line for each in short.lines for line in each.splitlines()):
        output.echo(f"  {line}")
    output.echo("")


def _save_story(short: Short | None, out: Path) -> tuple[str, ...]:
    """Leave the story and what matters of the finding beside log and recording."""
    if short is None:
        return ()
    from controlplane.scenarios.engine.execution import written
    from controlplane.scenarios.search.findings import FINDING, finding_of
    from controlplane.scenarios.search.story import story_of

    finding_of(short).save(out)
    with written(out / STORY) as draft:
        draft.write_text("\n".join(story_of(short).lines()) + "\n", encoding="utf-8")
    if not short.lines:
        return STORY, FINDING
    with written(out / PLAN_FILE) as draft:
        draft.write_text("\n".join(short.lines) + "\n", encoding="utf-8")
    return STORY, FINDING, PLAN_FILE


def short_json(short: Short, cause: Cause) -> dict[str, Any]:
    """A finding's short form and its story, for programs."""
    from controlplane.scenarios.search.story import story_of

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
        "plan": [line for each in short.lines for line in each.splitlines()],
        "cause": cause.to_json(),
        "story": story_of(short).to_json(),
    }


def _explore(
    campaign: Campaign,
    limits: SearchLimits,
    kept: Corpus | None,
    ended: interruption.Interruption,
) -> tuple[Tally, float]:
    from controlplane.scenarios.search import parallel

    plan, strategy, dask = campaign.plan, campaign.strategy, limits.dask
    schedules, seconds = limits.most_schedules, limits.seconds
    jobs = limits.jobs or os.cpu_count() or 1
    if dask is None and (parallel.enumerates(strategy) or plan.scenario.origin is None):
        jobs = 1
    progress = output.Progress()
    started = time.perf_counter()
    earlier = 0 if kept is None else kept.tally.schedules
    goals = len(plan.scenario.sometimes)
    total = f" of {schedules}" if schedules < NO_LIMIT else ""

    def over() -> bool:
        return ended.came or (seconds is not None and time.perf_counter() - started >= seconds)

    def heard(tally: Tally, seen: Seen) -> None:
        if kept is not None:
            kept.note(tally, seen)
        here = tally.schedules - earlier
        rate = here / (time.perf_counter() - started)
        reached = f", {len(tally.reached)} of {goals} reached" if goals else ""
        progress.show(
            f"schedule {here}{total}, {rate:.0f} schedules/s, {len(tally.classes)} distinct{reached},"
            f" {tally.failures} found"
        )

    ends = parallel.Limits(schedules, limits.most_failures, over, lambda: ended.came)
    if jobs == 1 and kept is None and dask is None and strategy != parallel.PORTFOLIO:
        found = _alone(campaign, ends, limits.check_every, heard)
    else:
        how: dict[str, Any] = {
            "seed": plan["seed"],
            "check_every": limits.check_every,
            "heard": heard,
            "earlier": None if kept is None else parallel.Earlier(kept.pieces, kept.tally),
        }
        if dask is not None:
            found = _on_dask(dask, plan, strategy, ends, how)
        else:
            found = parallel.explore(plan, strategy, ends, jobs=jobs, **how)
    wall = time.perf_counter() - started
    progress.clear()
    return found, wall


def _alone(
    campaign: Campaign,
    limits: Limits,
    check_every: int,
    heard: Callable[[Tally, Seen], None],
) -> Tally:
    """The whole search with one strategy object, which may learn from each run or go through them all."""
    from actors import collector
    from controlplane.scenarios.search.parallel import BATCH
    from controlplane.scenarios.search.tally import Seen, Tally

    tally = Tally()
    with collector.frozen():
        for part in campaign.parts(
            limits.schedules,
            BATCH,
            seed=campaign.plan["seed"],
            stop_at_first=limits.failures == 1,
            check_every=check_every,
            over=limits.over,
        ):
            seen = Seen.of(part, campaign.lines_of)
            tally.add(seen)
            heard(tally, seen)
            if limits.failures is not None and tally.failures >= limits.failures:
                break
    return tally


def _on_dask(address: str, plan: Plan, strategy: str, limits: Limits, how: dict[str, Any]) -> Tally:
    """The same search on the workers of a Dask cluster."""
    from controlplane.scenarios.search import parallel

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
        return parallel.explore(plan, strategy, limits, jobs=workers, executor=executor, **how)


@click.command("replay", short_help="Repeat any recording exactly.")
@click.argument("file", type=click.Path(path_type=Path), metavar="RECORDING")
@click.option(
    "--changed-code",
    is_flag=True,
    help="Carry out what matters of a finding over the code as it is now.",
)
@click.option(
    "--break",
    "break_at",
    type=click.IntRange(1),
    metavar="STEP",
    help="Open the debugger pdb before this step, with run, world and cluster at hand.",
)
@out_option()
@driver_option("bare")
@allow_code_option()
@format_option()
def replay_command(
    file: Path,
    changed_code: bool,
    break_at: int | None,
    out: Path | None,
    driver: Any,
    output_format: str,
) -> int:
    """Repeat a recorded run exactly; stop at the first difference.

    The recording names its scenario, whose source must be what it was, and its options. Exit status
    1 when the run ends badly, as recorded or otherwise.

    With --changed-code neither the source nor the version of this package need be what they were. It prints "still
    breaks", "breaks otherwise" (both exit status 1), "no longer breaks", "not reached: ..." or "cannot be followed
    from step N: ...".
    """
    from controlplane.scenarios.engine.execution import check_folder
    from controlplane.scenarios.search import replaying

    if changed_code:
        if break_at is not None:
            raise UsageError("--break needs the steps of the recording: not with --changed-code")
        return _try_again(file, out, output_format)

    recording = replaying.load(file)
    plan = replaying.plan_of_recording(recording, file, allowed=allowed_code())
    run = replaying.replayed(plan, recording)
    stopping = None
    if break_at is not None:
        if break_at > recording.steps:
            raise UsageError(f"--break {break_at}: the recording has {recording.steps} steps")
        stopping = debug.before_step(run, break_at)
    if out is not None:
        check_folder(out)
    with interruption.interruptible(lambda: run.world.interrupt(interruption.REASON)) as ended:
        result = run.execute(driver)
    if stopping is not None and stopping.left:
        output.echo(f"left in the debugger before step {stopping.step}")
        output.Outcome.status = 1
        return 1
    same = result.trace_hash == recording.trace_hash
    left = run.save(out, recording) if out is not None and not ended.came else ()
    output.Outcome.status = int(not (result.ok and same))
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
        if note := replaying.note_of(recording.header):
            output.echo(f"{file} {note}")
        reporting.print_left(out, left)
    reporting.tell_traceback(run.traceback, out)
    if ended.came:
        interruption.tell(f"this is what happened until step {result.steps} of {recording.steps}")
        return ended.status
    return output.Outcome.status


def _try_again(file: Path, out: Path | None, output_format: str) -> int:
    """Try a finding again on changed code, and print the outcome; the exit status."""
    from controlplane.scenarios.engine.execution import check_folder
    from controlplane.scenarios.search import findings

    if out is not None:
        check_folder(out)
    attempt = findings.tried(file, allowed_code())
    status = output.Outcome.status = int(attempt.breaks)
    left = () if out is None else attempt.run.save(out)
    if output_format == "json":
        result = attempt.run.result
        output.emit_json(
            {
                "scenario": attempt.run.plan.scenario.name,
                "outcome": attempt.outcome,
                "detail": attempt.detail,
                "verdict": result.verdict,
                "reason": result.reason,
            }
        )
    else:
        output.echo(str(attempt))
        reporting.print_left(out, left)
    reporting.tell_traceback(attempt.run.traceback, out)
    return status


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
@allow_code_option()
@format_option()
def shrink_command(file: Path, runs: int, out: Path | None, output_format: str) -> int:
    """Bring a recorded finding down to the few decisions that matter.

    Exit status 1 when the recording fails, as a finding does; 2 when it does not, and there is
    nothing to shrink.
    """
    from controlplane.scenarios.engine.execution import check_folder
    from controlplane.scenarios.search import replaying
    from controlplane.scenarios.search.naming import cause_of

    recording = replaying.load(file)
    if recording.verdict in {"quiescent", "until", "stopped"}:
        raise UsageError(
            f"{file}: the recorded run ended well ({recording.verdict}): nothing to shrink"
        )
    if recording.inputs:
        raise UsageError(f"{file}: a served session takes input from outside: it cannot be shrunk")
    plan = replaying.plan_of_recording(recording, file, allowed=allowed_code())
    if out is not None:
        check_folder(out)
    with interruption.interruptible() as ended:
        short = _shortened(plan, recording.choices, runs, ended)
        cause = cause_of(short, lambda: ended.came)
    output.Outcome.status = 1
    left: tuple[str, ...] = ()
    if out is not None:
        left = (*short.failing.save(out, short.recording()), *_save_story(short, out))
    if output_format == "json":
        output.emit_json(short_json(short, cause))
    else:
        _print_story(short, cause)
        reporting.print_left(out, left)
    if ended.came:
        interruption.tell(f"this is what {plural(short.shrunk.runs, 'run')} came to")
        return ended.status
    return 1
