"""`controlplane bench`: how fast it is, by benchmark files of upstream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controlplane.cli import output, reporting
from controlplane.cli.names import Group
from controlplane.cli.options import driver_option, format_option, log_level_option
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.perf.kueue_files import Ranges
    from controlplane.perf.kueue_runner import Result
    from controlplane.perf.runner import WorkloadResult
    from controlplane.perf.workloads import Workload


@click.group("bench", cls=Group, short_help="How fast it is.")
def command() -> None:
    """Benchmarks, on the wall clock."""


@command.command("scheduler-perf", short_help="Run upstream's scheduler benchmark files.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--filter",
    "name_filter",
    default="",
    metavar="REGEX",
    help="Only workloads whose name TestCase/Workload it finds.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="LABEL",
    help="Only workloads with this label (performance, short, integration-test); -LABEL: without it. Repeatable.",
)
@click.option("--list", "only_list", is_flag=True, help="List the workloads and run none.")
@click.option(
    "--beside",
    default=None,
    metavar="COMMAND",
    help="Run the real benchmark in turn with ours; its words may hold {workload}, {pattern}, {file} and {out}.",
)
@click.option(
    "--pairs",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of pairs of runs, with --beside.",
)
@log_level_option("off", off=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave the items there as scheduler-perf.json, in upstream's form.",
)
@driver_option("bare")
@format_option()
def scheduler_perf(
    files: Sequence[Path],
    name_filter: str,
    labels: Sequence[str],
    only_list: bool,
    beside: str | None,
    pairs: int,
    log_level: str,
    out: Path | None,
    driver: str,
    output_format: str,
) -> int:
    """Run the workloads of upstream's performance-config.yaml files, templates included, unchanged.

    Reported is the wall time of the whole path: from the creation of the pods in the API server to
    the moment when an informer has seen the last one bound. Waiting (backoff, sleeps, rates of
    background operations when nothing else happens) takes no time. STORED is what the real control
    plane once reached on a machine of this size, where that was measured. Exit status 1 when a
    workload failed or was refused.

    With --beside the real benchmark is measured here and now: COMMAND (no shell sees it) is run in
    turn with ours, each in a process of its own, and the ratio of each pair counts. It tells what it
    reached by upstream's data items, in JSON files left in {out} or printed, or by lines of a Go
    benchmark such as "BenchmarkPerfScheduling/TestCase/Workload-2 1 372.1 pods/s". {pattern} is what
    Go's -bench wants for the workload. For example:

    --beside 'scheduler_perf.test -test.run=^$ -test.benchtime=1ns -test.bench={pattern} -data-items-dir={out}'
    """
    from controlplane.perf import workloads as reader

    found = [each for path in files for each in reader.load(path)]
    chosen = reader.select(found, name_filter, labels)
    if not chosen:
        raise UsageError(f"none of {len(found)} workloads is called so and has these labels")
    if only_list:
        _list(chosen, output_format)
        return 0
    if beside is not None:
        if out is not None or log_level != "off":
            raise UsageError("--beside goes with neither --out nor --log-level")
        return _compare(files, chosen, beside, pairs, driver, output_format)
    results = _run(chosen, driver, log_level)
    from controlplane.perf import reporting as figures

    if out is not None:
        _save(out, figures.items(results))
    if output_format == "json":
        output.emit_json(figures.to_json(results))
    else:
        _print(results, detailed=len(results) == 1)
    for result in results:
        reporting.tell_traceback(result.traceback)
    return 1 if any(result.failed for result in results) else 0


def _run(chosen: Sequence[Workload], driver: str, log_level: str) -> list[WorkloadResult]:
    from actors import collector
    from controlplane.perf import runner

    progress = output.Progress()
    results = []
    for workload in chosen:
        show = progress.show
        with collector.off():
            results.append(runner.run(workload, driver=driver, log_level=log_level, progress=show))
    progress.clear()
    return results


def _compare(
    files: Sequence[Path],
    chosen: Sequence[Workload],
    beside: str,
    pairs: int,
    driver: str,
    output_format: str,
) -> int:
    """Each workload of each file that was chosen, beside the real one."""
    from controlplane.perf import beside as comparing
    from controlplane.perf import workloads as reader

    command = comparing.command_of(beside)
    names = {each.full_name for each in chosen}
    progress = output.Progress()
    results = [
        comparing.compare(each, path, command, pairs, driver, progress.show)
        for path in files
        for each in reader.load(path)
        if each.full_name in names
    ]
    progress.clear()
    if output_format == "json":
        output.emit_json({"workloads": [each.to_json() for each in results]})
    else:
        rows = [each.row() for each in results if each.pairs]
        if rows:
            title = "Throughput, pods per second, in turn on this machine (medians; TIMES: ours to theirs)"
            output.table(title, comparing.COLUMNS, rows, comparing.NUMBERS)
        for each in results:
            if each.failed:
                output.echo(f"{each.name}: {each.failed}")
    return 1 if any(each.failed for each in results) else 0


def _list(chosen: Sequence[Workload], output_format: str) -> None:
    if output_format == "json":
        output.emit_json(
            [
                {
                    "name": each.full_name,
                    "labels": list(each.labels),
                    "params": dict(each.params),
                    "refused": each.refused,
                }
                for each in chosen
            ]
        )
        return
    rows = [
        (
            each.full_name,
            ", ".join(each.labels),
            ", ".join(f"{key}={value}" for key, value in each.params.items()),
            each.refused,
        )
        for each in chosen
    ]
    output.table(f"Workloads: {len(chosen)}", ["WORKLOAD", "LABELS", "PARAMETERS", "REFUSED"], rows)


def _save(folder: Path, items: object) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / "scheduler-perf.json.part"
        draft.write_text(json.dumps(items, indent=1) + "\n", encoding="utf-8")
        draft.replace(folder / "scheduler-perf.json")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error


def _print(results: Sequence[WorkloadResult], *, detailed: bool) -> None:
    from controlplane.perf import reporting as figures

    rows = figures.rows(results)
    if rows:
        title = "Throughput, pods per second"
        output.table(title, figures.COLUMNS, rows, figures.NUMBERS)
    if detailed:
        latencies = figures.latency_rows(results[0])
        if latencies:
            output.table(
                "Latencies, milliseconds",
                figures.LATENCY_COLUMNS,
                latencies,
                figures.LATENCY_COLUMNS[2:],
            )
    for result in results:
        if result.failed:
            output.echo(f"{result.workload.full_name}: {result.failed}")


@command.command("kueue", short_help="Run Kueue's own scalability test.")
@click.argument("file", type=click.Path(path_type=Path), metavar="GENERATOR")
@click.option(
    "--range",
    "range_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The ranges within which the result has to be, in upstream's form (rangespec.yaml).",
)
@click.option(
    "--unlimited",
    is_flag=True,
    help="Do not limit the requests of Kueue; by default 50 a second for each kind, after a burst of 100, as upstream.",
)
@driver_option("bare")
@format_option()
def kueue(
    file: Path, range_file: Path | None, unlimited: bool, driver: str, output_format: str
) -> int:
    """Generate the workloads of a generator.yaml of Kueue's scalability test, and run until all have finished.

    Jobs are mimicked: a workload finishes after its running time, and hands its quota back when evicted. Waits and
    usage are of virtual time, in which upstream's test spends that of the wall clock; the wall time of the
    run is told beside it. Exit status 1 when a range is not kept.
    """
    from actors import collector
    from controlplane.perf import kueue_files, kueue_runner

    cohorts = kueue_files.load_generator(file)
    ranges = kueue_files.Ranges() if range_file is None else kueue_files.load_ranges(range_file)
    progress = output.Progress()
    rate = None if unlimited else kueue_runner.CLIENT_RATE
    with collector.off():
        result = kueue_runner.run(cohorts, driver=driver, rate=rate, progress=progress.show)
    progress.clear()
    if output_format == "json":
        output.emit_json(result.to_json(ranges))
    else:
        _print_kueue(result, ranges)
    reporting.tell_traceback(result.traceback)
    kept = all(each[-1] for each in result.verdicts(ranges))
    return 0 if kept and not result.failed else 1


def _print_kueue(result: Result, ranges: Ranges) -> None:
    classes = [
        (name, str(each.count), f"{each.mean_wait_ms:.0f}", str(each.evictions))
        for name, each in sorted(result.figures.workloads.items())
    ]
    columns = ("CLASS", "WORKLOADS", "MS TO ADMISSION", "EVICTIONS")
    output.table("Workloads, by class", columns, classes, columns[1:])
    queues = [(name, f"{each.usage:.1f}") for name, each in sorted(result.figures.queues.items())]
    output.table("ClusterQueues, by class", ("CLASS", "USAGE %"), queues, ("USAGE %",))
    rows = [
        (what, name, f"{bound:g}", f"{found:.1f}", "yes" if kept else "no")
        for what, name, bound, found, kept in result.verdicts(ranges)
    ]
    if rows:
        head = ("RANGE", "CLASS", "BOUND", "RESULT", "KEPT")
        output.table("Ranges", head, rows, head[2:4])
    output.echo(
        f"{result.workloads} workloads in {result.virtual_s:.1f} s of virtual time; {result.wall_s:.1f} s on the wall"
        f" clock, {result.steps} steps"
    )
    if result.failed:
        output.echo(result.failed)
