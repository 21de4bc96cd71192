"""The search under one mutant, in a process of its own: `python -m controlplane.races.mutants.trial` with a request.

The request is one JSON object on standard input (`Request`), the result one on standard output (`Result`). A request
that names modules in place of a mutant is answered with the places for a mistake in them that the workload comes to
(`reach`). Changed modules are compiled from their changed syntax trees when they are first imported, so nothing of
the project that would import them may be imported before.
"""

from __future__ import annotations

import builtins
import json
import signal
import sys
from collections import Counter
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from controlplane.races.mutants.operators import REACHED, marked, mutated
from controlplane.races.mutants.population import Workload

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, ModuleType

    Change = Callable[[str], ast.Module]
    """Makes a module's changed syntax tree from its source."""


@frozen
class Request:
    """A mutant by name ("": none), the names of the workloads to search in turn, and the limits of each search.

    `modules` are those whose places are to be counted: then there is no mutant.
    """

    mutant: str
    workloads: tuple[str, ...]
    schedules: int
    seconds: float
    seed: int = 0
    modules: tuple[str, ...] = ()


@frozen
class Result:
    """The result of the search.

    `outcome` is found, survived, not-reached (no workload came to the place) or broken (the module cannot be
    imported). `reason` is the broken invariant with its text, or the exception.
    """

    mutant: str
    outcome: str
    workload: str = ""
    schedules: int = 0
    steps: int = 0
    verdict: str = ""
    reason: str = ""

    @property
    def oracle(self) -> str:
        """The invariant that broke, or the verdict."""
        return self.reason.partition(":")[0] if self.verdict == "violated" else self.verdict


class _Loader(SourceFileLoader):
    """Loads one changed module; the compiled file beside the source is neither read nor written."""

    change: Change

    def get_code(self, fullname: str) -> CodeType:
        """Compile the changed syntax tree."""
        tree = self.change(Path(self.path).read_text(encoding="utf-8"))
        return compile(tree, self.path, "exec")


class _Finder(MetaPathFinder):
    """Finds the modules that are to be changed; all others are left to Python."""

    def __init__(self, changes: Mapping[str, Change]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module is, with the loader that changes it."""
        change = self._changes.get(fullname)
        if change is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        loader = _Loader(fullname, spec.origin)
        loader.change = change
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
    """Search the workloads, one after the other, for anything that breaks under the mutant."""
    module = request.mutant.partition(":")[0]
    changes = {module: partial(mutated, mutant=request.mutant)} if request.mutant else {}
    reached = _begin(changes)
    alarm = _Alarm()
    schedules = steps = 0
    for name in request.workloads:
        try:
            plan = Workload.named(name).plan()
        except Exception as error:
            return Result(request.mutant, "broken", name, reason=f"{type(error).__name__}: {error}")
        alarm.set(request.seconds)
        tally = _search(plan, request, alarm, failures=1)
        schedules, steps = schedules + tally.schedules, steps + tally.steps
        for one in tally.failing:
            text = one.reason[:300]
            at = schedules - tally.schedules + one.first
            return Result(request.mutant, "found", name, at, steps, one.verdict, text)
    outcome = "survived" if reached or not request.mutant else "not-reached"
    return Result(request.mutant, outcome, "", schedules, steps)


def reach(request: Request) -> dict[str, int]:
    """Return how often the first workload comes to each place for a mistake in the modules, by the mutant's name.

    Nothing is changed in what the modules do, and the search goes on after a finding.
    """
    reached = _begin({module: partial(marked, module) for module in request.modules})
    plan = Workload.named(request.workloads[0]).plan()
    alarm = _Alarm()
    alarm.set(request.seconds)
    _search(plan, request, alarm, failures=None)
    return dict(reached)


def _begin(changes: Mapping[str, Change]) -> Counter[str]:
    """From now on imported modules are changed. Returns the counts of the marks, which go on."""
    reached: Counter[str] = Counter()

    def count(name: str) -> None:
        reached[name] += 1

    setattr(builtins, REACHED, count)
    sys.meta_path.insert(0, _Finder(changes))
    return reached


def _search(plan: Any, request: Request, alarm: _Alarm, failures: int | None) -> Any:
    from controlplane.scenarios.search import parallel

    limits = parallel.Limits(
        request.schedules, failures, over=lambda: alarm.rang, cut_short=lambda: alarm.rang
    )
    return parallel.explore(plan, parallel.PORTFOLIO, limits, jobs=1, seed=request.seed)


def main() -> None:
    """Read the request, search, print the result."""
    told = json.load(sys.stdin)
    lists = {key: tuple(told[key]) for key in ("workloads", "modules")}
    request = Request(**{**told, **lists})
    answer: Any = reach(request) if request.modules else asdict(carry_out(request))
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
