"""Trials of many mutants side by side, each in a fresh process.

First each workload runs once without a mistake, to see which places it comes to. A mutant is then searched for under
the workloads that come to its place, the most often first; where none comes to it, there is nothing to search.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from controlplane.races.mutants.population import modules_of, population, sample, workloads_of
from controlplane.races.mutants.trial import Request, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.races.mutants.operators import Mutant

MANY = 1_000_000
"""No limit of schedules: the time ends the search."""
WORKLOADS = 3
"""A mutant is searched for under this number of workloads at most."""
GRACE_S = 60.0
"""Time limit of a trial beyond that of its searches: for the start, and for a schedule without an end (a finding)."""


@frozen
class Trial:
    """A mutant of a component, and the result of the search under it."""

    component: str
    mutant: Mutant
    result: Result

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        place = {"line": self.mutant.line, "text": self.mutant.text}
        return {
            "component": self.component,
            **asdict(self.result),
            "oracle": self.result.oracle,
            **place,
        }


def drawn(components: Sequence[str], size: int, seed: int = 0) -> list[tuple[str, Mutant]]:
    """Return a sample of each component's mutants, with the component's name."""
    return [
        (component, mutant)
        for component in components
        for mutant in sample(population(component), size, seed)
    ]


def reach(
    components: Sequence[str],
    *,
    seconds: float,
    seed: int = 0,
    jobs: int = 1,
    heard: Callable[[str], None] = lambda _workload: None,
    over: Callable[[], bool] = lambda: False,
) -> dict[str, dict[str, int]]:
    """Run each workload of the components without a mistake for at most `seconds` seconds.

    `heard` is called with each workload's name as it ends. Returns, by workload, how often it came to each place, by
    the mutant's name. Raises RuntimeError for a workload that ends with an error.
    """
    asked: dict[str, list[str]] = {}
    for component in components:
        for workload in workloads_of(component):
            asked.setdefault(workload.name, []).extend(modules_of(component))

    def one(workload: str, modules: Sequence[str]) -> tuple[str, dict[str, int]]:
        request = Request("", (workload,), MANY, seconds, seed, tuple(modules))
        counts = {} if over() else _answer(request, seconds + GRACE_S)
        heard(workload)
        return workload, counts

    with ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(lambda each: one(*each), asked.items()))


def workloads_for(
    component: str, mutant: Mutant, reached: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return the workloads of the component that come to a mutant's place, the most often first."""
    counts = {
        each.name: reached[each.name].get(mutant.name, 0)
        for each in workloads_of(component)
        if each.name in reached
    }
    coming = [name for name, count in counts.items() if count]
    return sorted(coming, key=lambda name: -counts[name])[:WORKLOADS]


def carry_out(
    mutants: Sequence[tuple[str, Mutant]],
    reached: Mapping[str, Mapping[str, int]],
    *,
    schedules: int,
    seconds: float,
    seed: int = 0,
    jobs: int = 1,
    heard: Callable[[Trial], None] = lambda _trial: None,
    over: Callable[[], bool] = lambda: False,
) -> list[Trial]:
    """Search under each mutant for at most `schedules` schedules and `seconds` seconds per workload.

    `reached` is what `reach` returned for the components. `heard` is called with each trial as it ends; once `over`
    says so, the trials that have not begun are left out. Returns the trials in the order of the mutants.
    """

    def one(component: str, mutant: Mutant) -> Trial | None:
        if over():
            return None
        workloads = workloads_for(component, mutant, reached)
        if not workloads:
            return Trial(component, mutant, Result(mutant.name, "not-reached"))
        request = Request(mutant.name, tuple(workloads), schedules, seconds, seed)
        return Trial(component, mutant, _in_a_process(request))

    found: dict[str, Trial] = {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, component, mutant) for component, mutant in mutants]
        for future in as_completed(futures):
            trial = future.result()
            if trial is not None:
                found[trial.mutant.name] = trial
                heard(trial)
    return [found[mutant.name] for _, mutant in mutants if mutant.name in found]


def _in_a_process(request: Request) -> Result:
    limit = request.seconds * len(request.workloads) + GRACE_S
    try:
        return Result(**_answer(request, limit))
    except subprocess.TimeoutExpired:
        return Result(request.mutant, "found", verdict="hangs", reason=f"no end after {limit:g} s")
    except RuntimeError as error:
        return Result(request.mutant, "broken", reason=str(error)[:300])


def _answer(request: Request, limit: float) -> Any:
    """Ask a fresh process. Raises TimeoutExpired, and RuntimeError with the last line of a process that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.races.mutants.trial"],
        input=json.dumps(asdict(request)),
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    if done.returncode or not done.stdout:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    return json.loads(done.stdout.splitlines()[-1])
