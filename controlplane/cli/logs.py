"""`controlplane logs`: questions to what runs recorded."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from controlplane.cli import output
from controlplane.cli.names import Choice, Group
from controlplane.cli.options import allow_code_option, allowed_code, format_option, grouped
from controlplane.cli.run_logs import RUN, opened, run_option, runs_option
from controlplane.errors import UsageError, plural, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.logs.filtering import Filter
    from controlplane.logs.reading import Line
    from controlplane.logs.series import Series

FOLLOW_S = 0.2
"""The polling interval of a followed log."""
SPARK = 24
"""The width of a chart of a metric over time."""
SHOWN = 20
"""The number of rows shown of stale reads and the like."""


@click.group("logs", cls=Group, short_help="Ask what a run recorded.")
def command() -> None:
    """Ask what a run recorded.

    RUN is a folder that `run --out` left, a log.jsonl (also .zst and .gz), or a run.rec, which is repeated to
    get its log.
    """


def _time(t: float) -> str:
    return f"{t:g}s" if t < 1e6 else f"{t:,.0f}s"


# ------------------------------------------------------------------------------ why, timeline


@command.command("why", short_help="What happened to an object, and why; what led to a step.")
@click.argument("about", metavar="OBJECT|STEP|violation")
@run_option()
@click.option(
    "--hops", default=12, type=click.IntRange(min=1), show_default=True,
    help="How far back to follow causes.",
)  # fmt: skip
@format_option()
def why(about: str, place: Path, hops: int, output_format: str) -> int:
    """Explain what happened to an object: every write, every scheduling attempt, which plugin refused which
    nodes, how the chosen node scored, and the chain of causes, step by step.

    OBJECT is KIND/NAMESPACE/NAME or KIND/NAME, such as pod/default/web-0 or node/node-1. For a STEP the
    command shows its causes; for the violation that ended a run its history, in fifteen lines at most.
    """
    from controlplane.logs.answers import VIOLATION
    from controlplane.logs.answers import why as ask
    from controlplane.logs.why import folded

    log = opened(place)
    answer = ask(log, about, hops)
    if output_format == "json":
        output.emit_json(answer.to_json())
        return 0
    title = f"{answer.about}: {answer.sentence}"
    if answer.entries:
        rows: list[tuple[str, str, str, str]] = []
        for entry in folded(answer.entries):
            rows.append((_time(entry.t), str(entry.step), entry.actor, entry.what))
            rows += [("", "", "", f"  {line}") for line in entry.more]
        output.table(title, ("TIME", "STEP", "WHO", "WHAT"), rows, ("TIME", "STEP"))
        title = "what led there"
    if answer.about == VIOLATION and answer.entries:
        output.tell(
            f"controlplane logs why STEP --log {place} tells what led to one of these steps"
        )
        return 0
    rows = [(_time(h.t), str(h.step), f"{h.actor}/{h.task}", h.what) for h in answer.causes]
    if rows:
        output.table(title, ("TIME", "STEP", "WHO", "BECAUSE"), rows, ("TIME", "STEP"))
    return 0


@command.command("timeline", short_help="The life of an object, each incarnation apart.")
@click.argument("about", metavar="OBJECT")
@run_option()
@click.option(
    "--all", "everything", is_flag=True, help="Also its readers and the handlers notified of it."
)
@click.option(
    "--field", default="", metavar="PATH",
    help="Who changed this field, as spec.replicas or status.conditions[Ready].",
)  # fmt: skip
@format_option()
def timeline(about: str, place: Path, everything: bool, field: str, output_format: str) -> int:
    """Tell the life of an object, each incarnation apart: writes with the fields that they changed,
    decisions, and what its node did.
    """
    from controlplane.logs import timeline as lives

    log = opened(place)
    found = lives.timeline(log, about, everything=everything, path=field)
    if output_format == "json":
        output.emit_json(found.to_json())
        return 0
    if field and not found.incarnations:
        output.echo(f"{found.subject.kind}/{found.subject.key}: {field} was never changed")
    for each in found.incarnations:
        rows = [
            (_time(line.t), str(line.step), f"{line.actor}/{line.task}", found.what(line))
            for line in each.events
        ]
        title = f"{found.subject.kind}/{found.subject.key}" + (
            f", uid {each.uid}" if each.uid else ""
        )
        output.table(title, ("TIME", "STEP", "WHO", "WHAT"), rows, ("TIME", "STEP"))
    return 0


# ------------------------------------------------------------------------------ summary, stats


@command.command("summary", short_help="What ran, what failed, how it ended.")
@runs_option()
@format_option()
def summary(places: tuple[Path, ...], output_format: str) -> int:
    """Summarise runs: the verdicts, the work of each actor, refusals, retries and faults, and the pods that
    took longest.
    """
    from controlplane.logs.summary import summarise

    logs = [opened(place) for place in places]
    told = [(log.name, summarise(log)) for log in logs]
    if output_format == "json":
        output.emit_json([{"log": name, **each.to_json()} for name, each in told])
    else:
        for name, each in told:
            _show_summary(name, each)
    return 0


def _show_summary(name: str, told: Any) -> None:
    what = told.header.get("scenario", "")
    seed = f", seed {told.header['seed']}" if "seed" in told.header else ""
    ended = (
        f"{told.verdict}: {told.reason}" if told.verdict else "the log does not say how it ended"
    )
    output.tell(f"{name}: {what}{seed}".rstrip(": "))
    output.tell(f"  {ended}")
    output.tell(
        f"  {plural(told.events, 'event')}, {plural(told.steps, 'step')}, "
        f"{_time(told.t)} of virtual time; {plural(told.attempts, 'scheduling attempt')}, "
        f"{told.failed_attempts:,} of them failed; {plural(told.conflicts, 'conflict')}"
    )
    if told.pods:
        said = ", ".join(f"{count:,} {phase}" for phase, count in told.pods.items())
        output.tell(f"  pods: {said}")
    busiest = sorted(told.actors.items(), key=lambda item: (-item[1].steps, item[0]))
    rows = [
        (name, f"{a.steps:,}", f"{a.messages:,}", f"{a.writes:,}", f"{a.refused:,}")
        for name, a in busiest[:SHOWN]
    ]
    heads = ("ACTOR", "STEPS", "MESSAGES", "WRITES", "REFUSED")
    output.table("", heads, rows, heads[1:])
    if len(busiest) > SHOWN:
        output.tell(f"and {len(busiest) - SHOWN:,} more actors")
    for title, counts in (
        ("REFUSED", told.refused), ("RETRIED", told.retries), ("FAULT", told.faults),
        ("TROUBLE", told.errors),
    ):  # fmt: skip
        if counts:
            rows2 = [(what, f"{count:,}") for what, count in counts.most_common(SHOWN)]
            output.table("", (title, "TIMES"), rows2, ("TIMES",))
    rows3 = [
        (life.obj, _time(life.took), life.node or "-", life.phase, str(life.attempts))
        for life in told.slowest
        if life.took
    ]
    if rows3:
        heads = ("SLOWEST PODS", "TOOK", "NODE", "PHASE", "ATTEMPTS")
        output.table("", heads, rows3, ("TOOK", "ATTEMPTS"))


@command.command("stats", short_help="How long things took: percentiles in virtual time.")
@run_option()
@format_option()
def stats(place: Path, output_format: str) -> int:
    """Show how long things took in virtual time, how often which plugin refused nodes, and how many
    attempts pods needed.
    """
    from controlplane.logs.stats import PERCENTILES, measure

    log = opened(place)
    found = measure(log)
    if output_format == "json":
        output.emit_json(found.to_json())
        return 0
    heads = ("LATENCY", "COUNT", *(f"P{p}" for p in PERCENTILES), "MAX")
    rows = [
        (name, f"{count:,}", *(f"{value:.6g}s" for value in values))
        for name, count, values in found.rows()
    ]
    output.table("", heads, rows, heads[1:])
    if found.refused:
        rows2 = [(plugin, f"{count:,}") for plugin, count in found.refused.most_common()]
        output.table("", ("PLUGIN", "NODES REFUSED"), rows2, ("NODES REFUSED",))
    if found.attempts:
        rows2 = [(str(count), f"{pods:,}") for count, pods in sorted(found.attempts.items())]
        output.table("", ("ATTEMPTS", "PODS"), rows2, ("ATTEMPTS", "PODS"))
    return 0


@command.command("metrics", short_help="What components counted, over virtual time.")
@click.argument("name", default="", metavar="[NAME]")
@run_option()
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only with this label; may be given several times.",
)
@format_option()
def metrics(name: str, place: Path, labels: tuple[str, ...], output_format: str) -> int:
    """Show what a run with --metrics counted, under upstream's names: without NAME which numbers there are;
    of a NAME (* stands for anything) each series; of a single series each change.
    """
    from controlplane.logs import series

    asked: dict[str, str] = {}
    for each in labels:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--label {each!r}: expected NAME=VALUE, as queue=active")
        asked[key] = value
    if name and place == Path() and Path(name).exists():  # RUN without NAME
        place, name = Path(name), ""
    path = series.beside(opened(place).path)
    found = series.read(path, name, asked)
    if output_format == "json":
        output.emit_json([each.to_json() for each in found])
    elif not found:
        known = sorted({each.name for each in series.read(path)})
        if not any(fnmatchcase(each, name or "*") for each in known):
            raise UsageError(f"{path}: {unknown_name('metric', name, known)}")
        raise UsageError(f"{path}: the run never counted {' '.join((name, *labels))}")
    else:
        _show_metrics(found, everything=not name and not asked)
    return 0


def _show_metrics(found: list[Series], *, everything: bool) -> None:
    from controlplane.logs.series import sparkline

    end = max(each.points[-1][0] for each in found)
    if everything:
        names: dict[str, list[Series]] = {}
        for each in found:
            names.setdefault(each.name, []).append(each)
        rows = [
            (name, of[0].type, f"{len(of):,}", f"{sum(len(each.points) for each in of):,}")
            for name, of in names.items()
        ]
        output.table("", ("NAME", "TYPE", "SERIES", "CHANGES"), rows, ("SERIES", "CHANGES"))
        return
    drawn = output.on_terminal()
    if len(found) == 1:
        (only,) = found
        title = f"{only.name} {_labels(only)}".rstrip()
        if drawn:
            output.echo(f"{title}  {sparkline(only.points, end, SPARK)}")
        points = [(_time(t), f"{value:,g}") for t, value in only.points]
        output.table("" if drawn else title, ("TIME", "VALUE"), points, ("TIME", "VALUE"))
        return
    heads = ["NAME", "LABELS", "CHANGES", "LAST", "HIGHEST", *(["OVER TIME"] if drawn else [])]
    rows2 = [
        (
            each.name, _labels(each), f"{len(each.points):,}", f"{each.points[-1][1]:,g}",
            f"{max(value for _, value in each.points):,g}",
            *([sparkline(each.points, end, SPARK)] if drawn else []),
        )
        for each in found
    ]  # fmt: skip
    output.table("", heads, rows2, heads[2:5])


def _labels(of: Series) -> str:
    return ", ".join(f"{name}={value}" for name, value in of.labels.items() if value)


# ------------------------------------------------------------------------------ events


@frozen
class EventFilter:
    """The options of `logs events` that say which events, as text."""

    obj: str | None
    kind: str
    actor: str
    event: str
    level: str
    text: str
    steps: str
    times: str

    def parsed(self) -> Filter:
        """Return the filter. Raises UsageError for a malformed span."""
        from controlplane.logs.filtering import Filter, span_of

        span = span_of(self.steps, "--steps") if self.steps else None
        return Filter(
            obj=self.obj,
            kind=self.kind,
            actor=self.actor,
            event=self.event,
            level=self.level,
            text=self.text,
            steps=(int(span[0]), int(min(span[1], 1 << 62))) if span else None,
            times=span_of(self.times, "--time") if self.times else None,
        )


@command.command("events", short_help="The events of a run, filtered.")
@run_option()
@click.option("--object", "obj", metavar="OBJECT", help="Of one object, as pod/default/web-0.")
@click.option("--kind", default="", help="Of objects of this kind.")
@click.option("--actor", default="", help="Of this actor; * stands for anything.")
@click.option("--event", default="", help="Events of this name; * stands for anything.")
@click.option(
    "--level", default="", type=Choice(["", "trace", "debug", "info", "warning", "error"]),
    help="Events of this level and above; steps have none.",
)  # fmt: skip
@click.option("--text", default="", help="Events with this text anywhere.")
@click.option("--steps", default="", metavar="FIRST-LAST", help="Events of these steps.")
@click.option("--time", "times", default="", metavar="FIRST-LAST", help="In virtual seconds.")
@click.option(
    "--limit", default=0, type=click.IntRange(min=0), metavar="N", help="Maximum number of events."
)
@click.option("--follow", is_flag=True, help="Go on as the log is written.")
@format_option()
@grouped("asked", EventFilter)
def events(place: Path, asked: EventFilter, limit: int, follow: bool, output_format: str) -> int:
    """Print events, one line each; as JSON, the fields as they stand in the log."""
    from controlplane.logs import reading

    wanted = asked.parsed()
    log = None if follow else opened(place)
    if log is None:
        path = reading.find(place)
        lines: Iterable[Line] = filter(wanted.wants, reading.follow(path, _wait, asked.text))
    else:
        lines = wanted.of(log)
    shown = 0
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            output.echo(_as_text(line) if output_format != "json" else _as_json(line))
            shown += 1
            if shown == limit:
                break
    if log is not None and not shown:
        from controlplane.scheduler.loops.points import POINTS

        wanted.check_names(log, POINTS)
    return 0


def _wait() -> bool:
    import time

    sys.stdout.flush()
    time.sleep(FOLLOW_S)
    return True


def _said(line: Line) -> str:
    """The text of an event, or its fields."""
    from controlplane.logs.phrases import phrase

    said = phrase(line)
    if not said and line.event == "message":
        said = f"takes {line.data.get('message', '')} from {line.data.get('from', '')}"
    if not said and line.data:
        said = json.dumps(line.data, ensure_ascii=False)
    return said


def _as_text(line: Line) -> str:
    said = _said(line)
    who = f"{line.actor}/{line.task}"
    return f"{_time(line.t):>10} {line.step:>7} {who:<32} {line.event:<22} {said}".rstrip()


def _as_json(line: Line) -> str:
    import msgspec

    return msgspec.json.encode(line).decode()


# ------------------------------------------------------------------------------ races, diff


@command.command("races", short_help="Stale reads, and writes in no causal order.")
@run_option()
@click.option(
    "--all", "everything", is_flag=True, help="Also stale reads that nothing was based on."
)
@format_option()
def races(place: Path, everything: bool, output_format: str) -> int:
    """Show stale reads, how far behind each read was and which write used it; and pairs of writes to one
    object of which the second writer had not seen the first.
    """
    from controlplane.logs.races import find

    log = opened(place)
    found = find(log)
    if output_format == "json":
        output.emit_json(found.to_json())
        return 0
    output.tell(
        f"{found.reads:,} reads, {len(found.stale):,} of them stale, on {len(found.used):,} of which a"
        f" write was based; {found.unordered_in_all:,} pairs of writes in no causal order"
    )
    shown = found.stale if everything else found.used
    rows = [
        (
            _time(each.t), str(each.step), f"{each.actor}/{each.task}", each.obj,
            "none" if each.read is None else str(each.read),
            f"{each.newest} ({'another incarnation, ' if each.other else ''}{each.behind} behind)",
            each.used or "-",
        )
        for each in shown[:SHOWN]
    ]  # fmt: skip
    if rows:
        heads = ("TIME", "STEP", "WHO", "READ OF", "VERSION", "NEWEST", "BASED ON IT")
        output.table("stale reads", heads, rows, ("TIME", "STEP", "VERSION"))
    rows2 = [
        (
            each.obj, f"{each.first_verb} by {each.first_by}", str(each.first),
            f"{each.second_verb} by {each.second_by}", str(each.second), str(each.code),
        )
        for each in found.unordered[:SHOWN]
    ]  # fmt: skip
    if rows2:
        heads2 = ("OBJECT", "FIRST", "STEP", "THEN, NOT KNOWING", "STEP", "CODE")
        output.table("writes in no causal order", heads2, rows2, ("STEP", "CODE"))
    return 0


@command.command("diff", short_help="Where two runs part, and what came of it.")
@runs_option("RUN RUN", least=2, most=2)
@format_option()
def diff(places: tuple[Path, ...], output_format: str) -> int:
    """Show the first step and the first decision in which two runs differ, what both did before, and what
    followed. Exit status 1 if they differ.
    """
    from controlplane.logs.difference import compare

    logs = [opened(place) for place in places]
    found = compare(*logs)
    if output_format == "json":
        output.emit_json(None if found is None else found.to_json())
    elif found is None:
        output.tell("the two runs are the same, event by event")
    else:
        output.tell(f"{found.same_events:,} events are the same")
        for side, step in zip(found.sides, found.steps, strict=True):
            said = (
                "it ends"
                if step is None
                else f"step {step.step}: {_as_text(step).split(None, 2)[2]}"
            )
            output.tell(f"{side.name}: {said}")
        rows = [(_time(each.t), str(each.step), each.actor, _said(each)) for each in found.before]
        if rows:
            heads = ("TIME", "STEP", "WHO", "BOTH DID")
            output.table("before", heads, rows, heads[:2])
        for side in found.sides:
            told_lines = [side.event, *side.after] if side.event is not None else []
            rows = [(_time(each.t), str(each.step), each.actor, _said(each)) for each in told_lines]
            rows.append(("", "", "", side.verdict or "it does not say how it ended"))
            heads = ("TIME", "STEP", "WHO", "DECIDED")
            output.table(side.name, heads, rows, heads[:2])
    return 0 if found is None else 1


# ------------------------------------------------------------------------------ sql, export


@command.command("sql", short_help="SQL over the logs of runs, by DuckDB.")
@click.argument("query", metavar="QUERY")
@runs_option()
@format_option()
def sql(query: str, places: tuple[Path, ...], output_format: str) -> int:
    """Ask in SQL. Needs the extra `sql` (DuckDB).

    The tables and their columns:

    \b
    events     run, file, step, t, actor, task, event, level,
               obj, uid, rv, cause, data: every line of the log
    steps      run, step, t, actor, task, point, cause
    messages   run, step, t, actor, task, sender, message, cause
    writes     run, step, t, obj, uid, rv, verb, code, reason, by,
               based_on, node, phase, ready
    decisions  run, step, t, actor, decision, obj, uid, node,
               attempt, reason, message, data
    objects    run, kind, namespace, name, uid, created, gone, writes
    runs       run, file, scenario, seed, events, steps, t, verdict, reason
    metrics    run, t, name, type, labels, value; of runs with --metrics
    """  # noqa: D301 - click reads the control character \b
    from controlplane.logs.sql import query as ask

    logs = [opened(place) for place in places]
    names, rows = ask(logs, query)
    if output_format == "json":
        output.emit_json([dict(zip(names, map(_plain, row), strict=True)) for row in rows])
        return 0
    numbers = [
        name
        for at, name in enumerate(names)
        if rows and all(isinstance(row[at], (int, float)) for row in rows)
    ]
    output.table("", names, [["" if v is None else v for v in row] for row in rows], numbers)
    return 0


def _plain(value: Any) -> Any:
    """A value of SQL as JSON has it: numbers stay numbers, as far as JSON knows them."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (int, str, type(None))) else str(value)


@command.command("export", short_help="A log for Perfetto, ShiViz, OpenTelemetry, lnav and others.")
@run_option()
@click.option(
    "--format", "form", required=True,
    type=Choice(["perfetto", "shiviz", "otlp", "audit", "klog", "lnav", "parquet", "simulator"]),
    help="perfetto: Chrome trace JSON; audit: audit.k8s.io/v1; klog: text as components log; simulator: a record of"
    " kube-scheduler-simulator, for which run.rec is repeated.",
)  # fmt: skip
@click.option("-o", "--output", "target", type=RUN, help="File; standard output without it.")
@click.option("--actor", default="", help="Only this actor; * stands for anything.")
@click.option("-v", "--verbosity", default=10, help="klog: leave out what is said above this -v.")
def export(place: Path, form: str, target: Path | None, actor: str, verbosity: int) -> int:
    """Write a log in a form that other tools read."""
    from controlplane.logs.exporting import pieces, to_parquet

    if form == "simulator":
        return _export_record(place, target)
    log = opened(place)
    if form == "parquet":
        if target is None:
            raise UsageError("parquet is no text: name a file with -o FILE")
        to_parquet(log, target)
        return 0
    return _write(pieces(log, form, actor=actor, verbosity=verbosity), target)


def _export_record(place: Path, target: Path | None) -> int:
    from controlplane.logs.reading import RECORDING
    from controlplane.scenarios.search.simulator_record import record_lines

    recording = place / RECORDING if place.is_dir() else place
    if recording.suffix != ".rec" or not recording.is_file():
        raise UsageError(f"{place}: no recording (run.rec), which is repeated for the objects")
    return _write(record_lines(recording, allowed_code()), target)


def _write(made: Iterable[str], target: Path | None) -> int:
    if target is None:
        with contextlib.suppress(KeyboardInterrupt):
            for piece in made:
                output.write(piece)
    else:
        output.to_file(target, made)
    return 0


@command.command("report", short_help="A page with a run in it, to look at: one file.")
@runs_option("RUN [RUN]", most=2)
@click.option(
    "--format", "form", type=Choice(["html", "json"]), default="html", show_default=True,
    help="A page, or what it shows, for programs.",
)  # fmt: skip
@click.option(
    "-o", "--output", "target", type=RUN, default=Path("report.html"), show_default=True, metavar="FILE",
    help="The file that is written.",
)  # fmt: skip
@click.option("--log-only", is_flag=True, help="Repeat nothing: show what the log has.")
def report(places: tuple[Path, ...], form: str, target: Path, log_only: bool) -> int:
    """Write a page that shows a run: every step and its causes, the cluster at any step, the plugins'
    answers in each attempt, charts. Two runs stand side by side, with the first choice that differs.

    The file needs no other file and no network. If a recording (run.rec) stands beside the log, it is
    replayed for the objects, queues and scores that a log does not hold.
    """
    from controlplane.page.comparing import difference
    from controlplane.page.model import encode
    from controlplane.page.recorded import recorded
    from controlplane.page.report import report as written

    progress = output.Progress()

    def tell(events: int) -> None:
        progress.show(f"{events:,} events")

    allowed = allowed_code()
    runs = [recorded(place, repeating=not log_only, tell=tell, allowed=allowed) for place in places]
    progress.clear()
    models = [run.model for run in runs]
    parting = difference(*runs) if len(runs) == 2 else None
    if form == "json":
        told = {"runs": [model.since() for model in models], "difference": parting}
        text = encode(told).decode()
    else:
        text = written(models, parting)
    output.to_file(target, [text])
    size = target.stat().st_size
    output.echo(f"written: {target} ({size / 1e6:.1f} MB, {sum(map(len, models)):,} events)")
    for model in models:
        for said in model.lacks:
            output.complain(f"controlplane: {said}")
    return 0


@command.command(
    "schema", short_help="The JSON Schema of log.jsonl: of every line, and of every event's data."
)
def schema() -> int:
    """Print the JSON Schema of the lines of log.jsonl, and of metrics.jsonl."""
    from actors import jsonl
    from controlplane.logs import series, vocabulary

    output.emit_json(
        {"line": jsonl.schema(), "events": vocabulary.schema(), "metrics": series.schema()}
    )
    return 0


for _each in command.commands.values():  # any of them may be given a recording
    allow_code_option()(_each)
