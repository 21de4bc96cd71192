"""Trials of many mutants side by side, each in a fresh process, and the table of what they showed."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from controlplane.races.mutants.population import COMPONENTS, population, sample
from controlplane.races.mutants.trial import Request, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.races.mutants.operators import Mutant

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


def carry_out(
    mutants: Sequence[tuple[str, Mutant]],
    *,
    schedules: int,
    seconds: float,
    seed: int = 0,
    jobs: int = 1,
    heard: Callable[[Trial], None] = lambda _trial: None,
    over: Callable[[], bool] = lambda: False,
) -> list[Trial]:
    """Search under each mutant for at most `schedules` schedules and `seconds` seconds per churn.

    `heard` is called with each trial as it ends; once `over` says so, the trials that have not begun are left out.
    Returns the trials in the order of the mutants.
    """

    def one(component: str, mutant: Mutant) -> Trial | None:
        if over():
            return None
        churns = COMPONENTS[component].churns
        request = Request(mutant.name, churns, schedules, seconds, seed)
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
    limit = request.seconds * len(request.churns) + GRACE_S
    try:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.races.mutants.trial"],
            input=json.dumps(asdict(request)),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(request.mutant, "found", verdict="hangs", reason=f"no end after {limit:g} s")
    if done.returncode or not done.stdout:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return Result(request.mutant, "broken", reason=last[:300])
    return Result(**json.loads(done.stdout.splitlines()[-1]))
