"""The search under one mutant, in a process of its own: `python -m controlplane.races.mutants.trial` with a request.

The request is one JSON object on standard input (`Request`), the result one on standard output (`Result`). The
mutated module is compiled from its changed syntax tree when it is first imported, so nothing of the project that
would import it may be imported before.
"""

from __future__ import annotations

import builtins
import json
import signal
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from controlplane.races.mutants.operators import REACHED, mutated

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType


@frozen
class Request:
    """A mutant by name ("": none), the churns to search in turn, and the limits of each search."""

    mutant: str
    churns: tuple[str, ...]
    schedules: int
    seconds: float
    seed: int = 0


@frozen
class Result:
    """The result of the search.

    `outcome` is found, survived, not-reached (the workload never came to the place) or broken (the module cannot be
    imported). `reason` is the broken invariant with its text, or the exception.
    """

    mutant: str
    outcome: str
    churn: str = ""
    schedules: int = 0
    steps: int = 0
    verdict: str = ""
    reason: str = ""

    @property
    def oracle(self) -> str:
        """The invariant that broke, or the verdict."""
        return self.reason.partition(":")[0] if self.verdict == "violated" else self.verdict


class _Loader(SourceFileLoader):
    """Loads one module with a mistake in it; the compiled file beside the source is neither read nor written."""

    mutant = ""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the mutated syntax tree."""
        tree = mutated(Path(self.path).read_text(encoding="utf-8"), self.mutant)
        return compile(tree, self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the one module that is to be mutated; all others are left to Python."""

    def __init__(self, mutant: str) -> None:
        self._mutant = mutant
        self._module = mutant.partition(":")[0]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the mutated module is."""
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        loader = _Loader(fullname, spec.origin)
        loader.mutant = self._mutant
        spec.loader = loader
        return spec


class _Alarm:
    """The end of a search's time, as told by a timer of the system: no clock is read."""

    def __init__(self) -> None:
        self.rang = False
        signal.signal(signal.SIGALRM, self._ring)

    def set(self, seconds: float) -> None:
        """Begin anew."""
        self.rang = False
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _ring(self, _number: int, _frame: object) -> None:
        self.rang = True


def carry_out(request: Request) -> Result:
    """Search the churns, one after the other, for anything that breaks under a mutant."""
    times = 0

    def reached() -> None:
        nonlocal times
        times += 1

    setattr(builtins, REACHED, reached)
    if request.mutant:
        sys.meta_path.insert(0, _Finder(request.mutant))
    alarm = _Alarm()
    schedules = steps = 0
    for churn in request.churns:
        try:
            plan = _plan(churn)
        except Exception as error:
            return Result(
                request.mutant, "broken", churn, reason=f"{type(error).__name__}: {error}"
            )
        alarm.set(request.seconds)
        tally = _search(plan, request, alarm)
        schedules, steps = schedules + tally.schedules, steps + tally.steps
        for one in tally.failing:
            text = one.reason[:300]
            at = schedules - tally.schedules + one.first
            return Result(request.mutant, "found", churn, at, steps, one.verdict, text)
    outcome = "survived" if times or not request.mutant else "not-reached"
    return Result(request.mutant, outcome, "", schedules, steps)


def _plan(churn: str) -> Any:
    from importlib import import_module

    from controlplane.races.power import every_fix
    from controlplane.scenarios.engine.plan import plan_of

    scenario = import_module(f"controlplane.scenarios.churns.{churn}_churn").SCENARIO
    return plan_of(scenario, fix=every_fix())


def _search(plan: Any, request: Request, alarm: _Alarm) -> Any:
    from controlplane.scenarios.search import parallel

    limits = parallel.Limits(
        request.schedules, over=lambda: alarm.rang, cut_short=lambda: alarm.rang
    )
    return parallel.explore(plan, parallel.PORTFOLIO, limits, jobs=1, seed=request.seed)


def main() -> None:
    """Read the request, search, print the result."""
    told = json.load(sys.stdin)
    request = Request(**{**told, "churns": tuple(told["churns"])})
    sys.stdout.write(json.dumps(asdict(carry_out(request))) + "\n")


if __name__ == "__main__":
    main()
