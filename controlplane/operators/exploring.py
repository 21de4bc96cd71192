"""A campaign carried out: runs without faults, then plan after plan, each alarm confirmed by repeats."""

from __future__ import annotations

import json
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from controlplane.errors import UsageError
from controlplane.operators.campaign import REPEATS, Campaign, Pace, Result, pace_of
from controlplane.operators.drifts import SEVERITY, drifts_of, verdict_of
from controlplane.operators.generation import OPERATOR, PAIR
from controlplane.operators.loops.session import Conditions, performed
from controlplane.operators.oracles import calm_alarms
from controlplane.operators.report import as_text
from controlplane.scenarios.plans.language import parse, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.operators.campaign import Finding
    from controlplane.operators.description import Operator
    from controlplane.operators.generation import Candidate
    from controlplane.operators.observation import Record

__all__ = ["CAMPAIGN", "Limits", "explore", "plan_of_file"]

CAMPAIGN: Final = "campaign.json"


@frozen
class Limits:
    """The extent of a campaign: seconds of wall time, plans, runs without faults, repeats of an alarm, workers."""

    seconds: float = 60.0
    plans: int = 0
    """0: no limit."""
    calm: int = 2
    repeats: int = REPEATS
    jobs: int = 1
    pairs: bool = True
    drifts: bool = False
    """If true, drifts are tried, before the plans."""


def explore(
    operator: Operator,
    limits: Limits = Limits(),
    *,
    plans: Sequence[tuple[str, ...]] = (),
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Result:
    """Try an operator.

    Args:
        operator: the operator.
        limits: how much is tried.
        plans: plans to try first; with `limits.plans` as many as these, only these.
        folder: where campaign and findings are left; an earlier campaign there is gone on from.
        tell: is told of progress, in lines.

    Raises UsageError for a description with which nothing runs.
    """
    begin = time.monotonic()
    given = [plan_of_file(Path(name), operator) for name in operator.plans]
    given += [tuple(lines) for lines in plans]
    with _Workers(limits.jobs) as workers:
        calm = _calm(operator, limits, workers)
        pace = pace_of(calm, operator.settle_s)
        wrong = tuple(calm_alarms(calm))
        tell(
            f"{len(calm)} runs without faults: {calm[0].wall_s:.1f} s each, settles after {pace.settle_s:.2f} s of rest"
        )
        for alarm in wrong:
            tell(f"without faults: {alarm}")
        named = [_with_client(lines, calm) for lines in given]
        campaign = Campaign(calm, operator.ignore, named, _earlier(folder))
        result = Result(operator, campaign, pace, calm, wrong)
        until = begin + limits.seconds
        if limits.drifts:
            _try_drifts(result, limits, workers, until, tell)
        _try_all(result, limits, workers, until, tell, folder)
    result.wall_s = time.monotonic() - begin
    if folder is not None:
        _leave(folder, result)
    return result


def plan_of_file(path: Path, operator: Operator) -> tuple[str, ...]:
    """Return the lines of a plan's file: lines of this project, or a test plan of Sieve in YAML. Raises UsageError."""
    if path.suffix not in (".yaml", ".yml"):
        return tuple(read(str(path)).splitlines())
    from controlplane.operators.sieve import plurals_of, read_file
    from controlplane.scenarios.inputs import manifests

    plurals = plurals_of(each.tree for each in manifests.load(operator.manifests))
    return read_file(path, plurals)


def _with_client(lines: Sequence[str], calm: Sequence[Record]) -> tuple[str, ...]:
    """Return the lines with the operator's client in place of the word that stands for it."""
    client = calm[0].clients[0] if calm[0].clients else "*"
    text = "\n".join(lines).replace(OPERATOR, client)
    return tuple(str(parse(text)).splitlines())


def _calm(operator: Operator, limits: Limits, workers: _Workers) -> tuple[Record, ...]:
    """Perform the runs without faults: the first one with long windows, the others as it has taught."""
    pace = Pace()
    settle = 2 * operator.settle_s or pace.settle_s
    first = performed(operator, Conditions(quiet_s=pace.quiet_s, settle_s=settle))
    learned = pace_of([first], operator.settle_s)
    conditions = Conditions(quiet_s=learned.quiet_s, settle_s=2 * learned.settle_s)
    rest = workers.all(operator, [conditions] * (limits.calm - 1))
    return (first, *rest)


def _try_drifts(
    result: Result,
    limits: Limits,
    workers: _Workers,
    until: float,
    tell: Callable[[str], None],
) -> None:
    """Try the drifts; one that fails counts if it fails again, with longer windows."""
    campaign, operator, pace = result.campaign, result.operator, result.pace
    normal = _conditions(pace, ())
    slow = _conditions(pace, (), factor=2.0)
    for drift in drifts_of(result.calm[0]):
        if time.monotonic() >= until:
            return
        (record,) = workers.all(operator, [evolve(normal, drift=drift)])
        verdict = verdict_of(drift, record, campaign.reference, campaign.calm)
        if verdict.verdict in ("failed", "degraded"):
            again = workers.all(operator, [evolve(slow, drift=drift)] * max(1, limits.repeats - 1))
            better = [verdict_of(drift, one, campaign.reference, campaign.calm) for one in again]
            verdict = min((verdict, *better), key=lambda one: SEVERITY.index(one.verdict))
        result.verdicts.append(verdict)
        tell(str(verdict))


def _try_all(
    result: Result,
    limits: Limits,
    workers: _Workers,
    until: float,
    tell: Callable[[str], None],
    folder: Path | None,
) -> None:
    campaign, operator = result.campaign, result.operator
    running: dict[Future[Record], Candidate] = {}
    started = 0
    while True:
        while len(running) < max(1, limits.jobs):
            more = time.monotonic() < until and (not limits.plans or started < limits.plans)
            candidate = campaign.next() if more else None
            if candidate is not None and candidate.form == PAIR and not limits.pairs:
                candidate = None
            if more and candidate is None:
                result.exhausted = True
            if candidate is None:
                break
            started += 1
            running[workers.start(operator, _conditions(result.pace, candidate.lines))] = candidate
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for each in sorted(done, key=lambda future: str(running[future])):
            candidate = running.pop(each)
            _take(result, limits, workers, candidate, each.result(), tell, folder)
            if folder is not None:
                _leave(folder, result)


def _take(
    result: Result,
    limits: Limits,
    workers: _Workers,
    candidate: Candidate,
    record: Record,
    tell: Callable[[str], None],
    folder: Path | None,
) -> None:
    """Take one run in, and confirm what it shows; leave a recording of what is found."""
    alarms = result.campaign.take(candidate, record)
    if not alarms:
        return
    slow = _conditions(result.pace, candidate.lines, factor=2.0)
    repeats = [slow] * limits.repeats
    place = None
    if folder is not None:
        place = folder / f"finding-{len(result.campaign.findings) + 1}"
        repeats[0] = evolve(slow, folder=str(place))
    records = workers.all(result.operator, repeats)
    finding = result.campaign.confirm(candidate, alarms, records)
    if finding is None and place is not None:
        rmtree(place, ignore_errors=True)
    if finding is not None:
        tell(f"found, {finding.rate}: {finding.alarms[0]} ({candidate.about})")


def _conditions(pace: Pace, lines: tuple[str, ...], factor: float = 1.0) -> Conditions:
    return Conditions(
        lines,
        settle_s=factor * pace.settle_s,
        quiet_s=factor * pace.quiet_s,
        patience=factor,
        most_messages=pace.most_messages,
    )


def _earlier(folder: Path | None) -> dict[str, Any] | None:
    """Return the state that an earlier campaign left. Raises UsageError."""
    if folder is None or not (folder / CAMPAIGN).is_file():
        return None
    try:
        found = json.loads((folder / CAMPAIGN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / CAMPAIGN}: cannot be read: {error}") from None
    if not isinstance(found, dict) or found.get("version") != 1:
        raise UsageError(f"{folder / CAMPAIGN}: expected a campaign of this version")
    return found


def _leave(folder: Path, result: Result) -> None:
    """Leave the campaign's state, and each finding's plan."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(result.campaign.state(), indent=1)
        (folder / CAMPAIGN).write_text(text, encoding="utf-8")
        (folder / "report.txt").write_text(as_text(result), encoding="utf-8")
        for number, finding in enumerate(result.campaign.findings, 1):
            plan = _plan_text(finding)
            (folder / f"finding-{number}.plan").write_text(plan, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error


def _plan_text(finding: Finding) -> str:
    told = "".join(f"# {alarm}\n" for alarm in finding.alarms)
    return f"{told}# repeats: {finding.rate}\n{finding.candidate}\n"


class _Workers:
    """Performs runs: here one after the other, or in processes beside."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Workers:
        if self._jobs > 1:
            self._pool = ProcessPoolExecutor(self._jobs, get_context("spawn"))
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def start(self, operator: Operator, conditions: Conditions) -> Future[Record]:
        """Begin a run."""
        if self._pool is not None:
            return self._pool.submit(performed, operator, conditions)
        future: Future[Record] = Future()
        try:
            future.set_result(performed(operator, conditions))
        except UsageError as error:
            future.set_exception(error)
        return future

    def all(self, operator: Operator, conditions: Sequence[Conditions]) -> list[Record]:
        """Perform several runs."""
        return [each.result() for each in [self.start(operator, one) for one in conditions]]
