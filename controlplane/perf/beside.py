"""Paired measurements of this scheduler and the real benchmark in turn, on the same machine.

What a machine does meanwhile meets both of a pair, so the ratio of each pair is worth more than the ratio of two
figures of different hours. Each run is a process of its own; the order changes from pair to pair.

The real one is a command of the user's, upstream's compiled benchmark say:

    scheduler_perf.test -test.run=^$ -test.benchtime=1ns -test.bench={pattern} -data-items-dir={out}

Its words may hold `{workload}` (TestCase/Workload), `{pattern}` (the same as Go's -bench wants it), `{file}` (the
performance-config.yaml) and `{out}` (an empty folder). What it reached is read from upstream's data items (JSON of
version "v1", in files that it left in `{out}` or as all that it printed), or from the lines of a Go benchmark:
`BenchmarkPerfScheduling/TestCase/Workload-2 1 372.1 pods/s`.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controlplane.api.tree import Tree
    from controlplane.perf.workloads import Workload

BENCHMARK = "BenchmarkPerfScheduling"
METRIC = "SchedulingThroughput"
UNIT = "pods/s"
PLACES = ("workload", "pattern", "file", "out")
COLUMNS = ("WORKLOAD", "PAIRS", "OURS", "THEIRS", "TIMES", "LEAST", "MOST")
NUMBERS = COLUMNS[1:]
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?(e[+-]?\d{1,2})?")
_PLACE = re.compile(r"\{(\w+)\}")


class NothingToldError(RuntimeError):
    """A run gave no figure; the message says why, in one line."""


@frozen
class Pair:
    """The throughput of both, in pods per second."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """The ratio of this scheduler's throughput to the real one's."""
        return self.ours / self.theirs


@frozen
class Compared:
    """A workload beside the real one: its pairs, or why there are not as many as were asked for."""

    name: str
    pairs: tuple[Pair, ...]
    failed: str = ""

    def row(self) -> tuple[object, ...]:
        """The row of a table with COLUMNS: medians, and the least and the greatest ratio."""
        ratios = [pair.ratio for pair in self.pairs]
        ours = statistics.median(pair.ours for pair in self.pairs)
        theirs = statistics.median(pair.theirs for pair in self.pairs)
        shown = (statistics.median(ratios), min(ratios), max(ratios))
        return (
            self.name,
            len(ratios),
            f"{ours:.0f}",
            f"{theirs:.0f}",
            *(f"{each:.2f}" for each in shown),
        )

    def to_json(self) -> Tree:
        """The pairs, and their ratio with its spread."""
        tree: Tree = {
            "name": self.name,
            "pairs": [{"ours": pair.ours, "theirs": pair.theirs} for pair in self.pairs],
        }
        if self.pairs:
            ratios = [pair.ratio for pair in self.pairs]
            tree["times"] = {
                "median": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
            }
        if self.failed:
            tree["failed"] = self.failed
        return tree


def command_of(text: str) -> tuple[str, ...]:
    """The words of the command. UsageError when they cannot be split or name no workload."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--beside: {error}") from None
    if not words:
        raise UsageError("--beside: the command is empty")
    places = [place for word in words for place in _PLACE.findall(word)]
    strange = [place for place in places if place not in PLACES]
    if strange:
        known = ", ".join(f"{{{place}}}" for place in PLACES)
        raise UsageError(f"--beside: there is no {{{strange[0]}}}; known: {known}")
    if not {"workload", "pattern"} & set(places):
        raise UsageError("--beside: the command has to say {workload} or {pattern} somewhere")
    return words


def pattern_of(workload: Workload) -> str:
    """The value of Go's `-bench` for this workload alone: an expression per level of its name."""
    parts = (BENCHMARK, *workload.full_name.split("/"))
    return "/".join(f"^{re.escape(part)}$" for part in parts)


def figure(texts: Iterable[str], workload: Workload) -> float:
    """The average throughput of a workload, as reported by one of these texts; of several measurements their mean.

    NothingToldError when none tells of it, or what it tells is no rate.
    """
    for text in texts:
        found = _of_items(text, workload) or _of_lines(text, workload)
        if found:
            average = statistics.fmean(found)
            if not 0 < average < float("inf"):
                raise NothingToldError(f"{average} {UNIT} is no rate")
            return average
    raise NothingToldError(f"no {METRIC} of {workload.full_name} in its output")


def _of_items(text: str, workload: Workload) -> list[float]:
    try:
        tree = json.loads(text)
        items = tree["dataItems"]
        return [
            float(item["data"]["Average"])
            for item in items
            if item["labels"]["Metric"] == METRIC and _names(item["labels"]["Name"], workload)
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _of_lines(text: str, workload: Workload) -> list[float]:
    found = []
    for line in text.splitlines():
        name, *words = line.split() or [""]
        bare, dash, processors = name.rpartition("-")
        if dash and processors.isdecimal():
            name = bare
        if not name.startswith(f"{BENCHMARK}/") or not _names(name, workload):
            continue
        for value, unit in zip(words[1::2], words[2::2], strict=False):
            wanted = unit == UNIT or (METRIC in unit and "average" in unit.lower())
            if wanted and _NUMBER.fullmatch(value):
                found.append(float(value))
    return found


def _names(name: str, workload: Workload) -> bool:
    """Return whether a label names the workload, or a measurement of it."""
    name = name.removeprefix(f"{BENCHMARK}/")
    return name == workload.full_name or name.startswith(f"{workload.full_name}/")


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; UsageError when it cannot be started."""
    try:
        return subprocess.run(  # the user's own command, which no shell sees
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UsageError(f"--beside: {words[0]}: {error.strerror}") from None


def _theirs(words: tuple[str, ...], workload: Workload, file: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        values: dict[str, Any] = {
            "workload": workload.full_name,
            "pattern": pattern_of(workload),
            "file": str(file.resolve()),
            "out": folder,
        }
        filled = [_PLACE.sub(lambda match: values[match[1]], word) for word in words]
        done = _run(filled)
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}".strip().splitlines() or [""]
            raise NothingToldError(f"{words[0]} ended with {done.returncode}: {said[-1][:200]}")
        files = sorted(Path(folder).rglob("*.json"))
        told = (path.read_text("utf-8", "replace") for path in files)
        return figure([*told, done.stdout], workload)


def _ours(workload: Workload, file: Path, driver: str) -> float:
    only = f"^{re.escape(workload.full_name)}$"
    words = (
        sys.executable,
        "-m",
        "controlplane",
        "bench",
        "scheduler-perf",
        str(file),
        "--filter",
        only,
        "--driver",
        driver,
        "--format",
        "json",
    )
    done = _run(words)
    if done.returncode:
        try:
            why = str(json.loads(done.stdout)["workloads"][0]["failed"])
        except (ValueError, LookupError, TypeError):
            why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise NothingToldError(why)
    return figure([done.stdout], workload)


def compare(
    workload: Workload,
    file: Path,
    command: tuple[str, ...],
    pairs: int,
    driver: str,
    progress: Callable[[str], None],
) -> Compared:
    """Run a workload this many times on both sides, in turn. A failure ends it; earlier pairs stay."""
    if workload.refused:
        return Compared(workload.full_name, (), f"refused: {workload.refused}")
    found: list[Pair] = []
    for number in range(pairs):
        reached: dict[str, float] = {}
        for who in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
            progress(f"{workload.full_name}: pair {number + 1} of {pairs}, {who}")
            try:
                if who == "ours":
                    reached[who] = _ours(workload, file, driver)
                else:
                    reached[who] = _theirs(command, workload, file)
            except NothingToldError as error:
                return Compared(workload.full_name, tuple(found), f"{who}: {error}")
        found.append(Pair(**reached))
    return Compared(workload.full_name, tuple(found))
