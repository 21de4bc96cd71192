"""`controlplane check FILE...`: will this configuration come to rest, and stay up?"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import interruption, output
from controlplane.cli.ci_formats import FORMATS, Report
from controlplane.cli.options import asked_of, declared_options, format_option, out_option
from controlplane.errors import UsageError, either, nearest, plural
from controlplane.scenarios import manifest_run as files
from controlplane.scenarios.check import scenario as checked
from controlplane.scenarios.engine.common_options import STRATEGY, UNTIL
from controlplane.scenarios.search import loading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from controlplane.scenarios.check.campaign import Check, Found

SECONDS = 60.0
SCHEDULES = 2


@click.command("check", short_help="Will a configuration come to rest, and stay up?")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--only",
    multiple=True,
    metavar="EVENT",
    help="Try this event only, or all of a kind: drain:node-1, drain. Repeatable.",
)
@click.option("--list-events", is_flag=True, help="List the events that would be tried, and end.")
@click.option(
    "--pairs/--no-pairs", default=True, show_default=True, help="Try events in pairs, too."
)
@click.option(
    "--schedules",
    type=click.IntRange(1),
    default=SCHEDULES,
    show_default=True,
    help="Schedules of each try: first in, first out, then random ones.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=SECONDS,
    show_default=True,
    help="Begin no further try after this time on the clock.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Processes that share the tries. [default: as many as there are cores]",
)
@declared_options(
    checked.SCENARIO, but=(files.FILES, checked.EVENTS, checked.BEGIN, UNTIL, STRATEGY)
)
@out_option("for each finding a folder with log.jsonl, run.rec and objects.yaml")
@format_option(*FORMATS)
def command(
    output_format: str,
    out: Path | None,
    only: tuple[str, ...],
    list_events: bool,
    pairs: bool,
    schedules: int,
    seconds: float,
    jobs: int | None,
    **values: Any,
) -> int:
    """Try manifests (YAML, JSON, folders) under what happens to every cluster: load up and down, nodes drained,
    tainted, lost and back, a zone lost, the manifests applied again, a rolling update. One event at a time, then in
    pairs, then under other schedules.

    Exit status 1 when something is found.
    """
    from actors import collector
    from controlplane.scenarios.check.campaign import Check
    from controlplane.scenarios.check.workers import shared
    from controlplane.scenarios.engine.execution import check_folder
    from controlplane.scenarios.engine.plan import plan_of

    collector.rest()
    started = time.perf_counter()
    scenario = loading.from_module(checked.__name__)
    named = values["files"]
    plan = plan_of(scenario, **asked_of(scenario, values))
    check = Check(plan, schedules, pairs, only)
    _check_only(only, check)
    if list_events:
        return _list(check, output_format)
    if out is not None:
        check_folder(out)
    progress = output.Progress()
    count = jobs or os.cpu_count() or 1

    def show(each: Found) -> None:
        progress.clear()
        if output_format == "table":
            _tell(each)

    with interruption.interruptible(lambda: check.interrupt(interruption.REASON)) as ended:
        check.run(
            carry_out=partial(shared, count) if count > 1 else None,
            over=lambda: ended.came or time.perf_counter() - started > seconds,
            progress=lambda each: progress.show(f"{check.done} of {check.planned} tries: {each}"),
            found=show,
        )
    progress.clear()
    status = output.Outcome.status = (
        ended.status if ended.came else int(bool(check.found or check.problems))
    )
    saved = [] if out is None else _save(check, out)
    wall = time.perf_counter() - started
    if output_format == "json":
        output.emit_json(_tree(check, saved, wall))
    elif output_format in FORMATS:
        output.echo(FORMATS[output_format](_report(check, named[0], wall)))
    else:
        _print(check, saved, wall, len(check.events()))
    if ended.came:
        interruption.tell(plural(check.done, "try", "tries"))
    return status


def _check_only(only: Sequence[str], check: Check) -> None:
    from controlplane.scenarios.check.events import KINDS, events_of

    known = [*KINDS, *map(str, events_of(check.subject, asked=True))]
    for each in only:
        if each not in known:
            near = nearest(each, known)
            hint = f"; did you mean {either(near)}?" if near else "; see --list-events"
            raise UsageError(f"--only: no event {each!r} for this configuration{hint}")


def _list(check: Check, output_format: str) -> int:
    from controlplane.scenarios.check.events import events_of

    events = check.events() if check.only else events_of(check.subject, asked=True)
    if output_format == "json":
        output.emit_json([{"event": str(each), "says": each.begins} for each in events])
    else:
        output.table("", ["EVENT", "WHAT HAPPENS"], [(str(each), each.begins) for each in events])
    return 0


def _save(check: Check, out: Path) -> list[Path]:
    """Carry each finding out once more with its whole log, and leave it."""
    from actors import EventLog

    folders = []
    for number, each in enumerate(check.found, 1):
        folder = out / f"{number}-{each.finding.verdict}"
        run = check.execution(each.shown_by, EventLog())
        run.execute("bare")
        run.save(folder)
        folders.append(folder)
    return folders


def _tree(check: Check, saved: Sequence[Path], wall: float) -> dict[str, Any]:
    return {
        "findings": [
            _finding(each, saved[at] if saved else None) for at, each in enumerate(check.found)
        ],
        "problems": check.problems,
        "tries": check.done,
        "planned": check.planned,
        "wall_s": round(wall, 3),
    }


def _finding(each: Found, folder: Path | None) -> dict[str, Any]:
    from controlplane.scenarios.check.verdicts import TITLES

    finding = each.finding
    return {
        "verdict": finding.verdict,
        "title": TITLES[finding.verdict],
        "objects": list(finding.objects),
        "after": finding.after,
        "virtual_s": finding.t_ns / 1e9,
        "says": finding.says,
        "lines": list(finding.lines),
        "events": list(map(str, each.shown_by.events)),
        "seed": each.shown_by.seed,
        "folder": None if folder is None else str(folder),
    }


def _report(check: Check, file: str, wall: float) -> Report:
    """The findings in the form that CI systems are told of."""
    from actors import ChoiceList
    from controlplane.scenarios.check.report import lines_of
    from controlplane.scenarios.search.tally import Failing

    failing = [
        Failing(
            number,
            number,
            each.shown_by.seed or 0,
            "violated",
            " ".join(line.strip() for line in lines_of(each.finding, *each.shown_by.told)),
            ChoiceList(),
        )
        for number, each in enumerate(check.found, 1)
    ]
    return Report("check", file, 1, failing, check.done, wall)


def _tell(each: Found) -> None:
    from controlplane.scenarios.check.report import lines_of

    for line in lines_of(each.finding, *each.shown_by.told):
        output.tell(line)
    output.echo()


def _print(check: Check, saved: Sequence[Path], wall: float, events: int) -> None:
    for folder in saved:
        output.tell(f"controlplane replay {folder}")
    for problem in check.problems:
        output.tell(problem)
    number = plural(len(check.found), "finding") if check.found else "no finding"
    tries = plural(check.done, "try", "tries")
    if check.done < check.planned:
        tries = f"{check.done} of {check.planned} tries"
    output.tell(f"{number} in {tries} of {plural(events, 'event')}, {wall:.1f} s")
