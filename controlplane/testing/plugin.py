"""The pytest fixture `explore`: search a scenario's schedules, and fail with the story of what was found.

    SCENARIO = Scenario("mine", workload=workload, invariants=(never_twice,))

    def test_nothing_breaks(explore):
        explore(SCENARIO, schedules=300)

What was found is made short, kept below `.controlplane/findings/`, and the failure names the command
that repeats it. The next run of the test tries a finding that is kept first, on the code as it is then.
`--explore-schedules N` and `--explore-seed N` widen all searches of a test run; `--explore-stored` tries
only what is kept. `controlplane replay` finds a scenario again that stands alone in its test file; one that is
imported, or made in the test, is repeated by the test itself.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from controlplane.testing.cluster import cluster
from controlplane.testing.operators import operator_under_test

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Exploration
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Scenario
    from controlplane.scenarios.search.shrinking import Short

__all__ = ["cluster", "explore", "operator_under_test"]

STORED = "--explore-stored"
SCHEDULES = 100
SHRINKS = 300
FINDINGS = Path(".controlplane") / "findings"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of all searches."""
    group = parser.getgroup("controlplane", "exploring schedules")
    group.addoption(
        "--explore-schedules", type=int, default=None, help="Schedules per search, at least."
    )
    group.addoption("--explore-seed", type=int, default=0, help="Seed of the first schedule.")
    group.addoption(
        STORED, action="store_true", help="Try only the findings that are kept; search nothing."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers", "cluster(*options): options of `controlplane serve` for the fixture `cluster`"
    )
    config.addinivalue_line(
        "markers", "operator(file, **limits): the description for the fixture `operator_under_test`"
    )


@pytest.fixture
def explore(request: pytest.FixtureRequest) -> Callable[..., Exploration]:
    """Search schedules of a scenario; fail with the story of the first that breaks something."""
    asked = request.config.getoption("--explore-schedules")
    seed = request.config.getoption("--explore-seed")

    def search(
        scenario: Scenario,
        *,
        schedules: int = SCHEDULES,
        strategy: str = "portfolio",
        shrinks: int = SHRINKS,
        **options: Any,
    ) -> Exploration:
        """`options` are the scenario's and the common ones, by key (`without_fix=("138324",)`)."""
        __tracebackhide__ = True
        from controlplane.scenarios.engine.plan import plan_of
        from controlplane.scenarios.search.exploring import Campaign, first_seed

        plan = plan_of(_located(scenario, request.path), **options)
        folder = _folder(request)
        tried = _try_stored(plan, folder)
        if request.config.getoption(STORED):
            if not tried:
                pytest.skip(f"no finding of {scenario.name!r} is kept in {folder}")
            return Campaign(plan, strategy).explore(0)
        count = max(schedules, asked or 0)
        found = Campaign(plan, strategy).explore(count, seed=first_seed(seed))
        if found.findings:
            pytest.fail(_told(plan, found, request, shrinks), pytrace=False)
        return found

    return search


def _located(scenario: Scenario, path: Path) -> Scenario:
    """The scenario with the file that it stands in, so that a recording can name it."""
    from controlplane.scenarios.engine.scenario import Origin
    from controlplane.scenarios.search.loading import digest

    if scenario.origin is not None:
        return scenario
    return evolve(scenario, origin=Origin(path.as_posix(), digest(path.read_bytes())))


def _folder(request: pytest.FixtureRequest) -> Path:
    """The folder of a test's finding."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    return Path(request.config.rootpath) / FINDINGS / name


def _try_stored(plan: Plan, folder: Path) -> bool:
    """Try the finding that is kept for a test; fail if it breaks. Return whether there is one of this search."""
    __tracebackhide__ = True
    from controlplane.scenarios.search import findings
    from controlplane.scenarios.search.shrinking import shorten
    from controlplane.scenarios.search.story import story_of

    if not (folder / findings.FINDING).is_file():
        return False
    finding = findings.load(folder)
    if not finding.belongs_to(plan):
        return False
    attempt = findings.try_again(plan, finding)
    if attempt.breaks:
        run = attempt.run
        short = shorten(run.plan, run.result.choices, runs=0)
        told = [f"the finding kept in {folder} {attempt}", ""]
        told += [f"  {line}" for line in story_of(short).lines()]
        pytest.fail("\n".join(told), pytrace=False)
    if attempt.outcome != findings.NO_LONGER:
        warnings.warn(f"the finding kept in {folder}: {attempt}", stacklevel=3)
    return True


def _told(plan: Plan, found: Exploration, request: pytest.FixtureRequest, shrinks: int) -> str:
    from controlplane.scenarios.search.findings import finding_of
    from controlplane.scenarios.search.shrinking import shorten
    from controlplane.scenarios.search.story import story_of

    finding = found.findings[0]
    short = shorten(plan, finding.result.choices, runs=shrinks)
    folder = _folder(request)
    short.failing.save(folder, short.recording())
    finding_of(short).save(folder)
    lines = [
        f"schedule {finding.schedule} of {plan.scenario.name!r} breaks something:",
        "",
        *(f"  {line}" for line in story_of(short).lines()),
        "",
        f"repeat it with: {_command(short, request, folder)}",
    ]
    return "\n".join(lines)


def _command(short: Short, request: pytest.FixtureRequest, folder: Path) -> str:
    """The command that repeats a finding: by its scenario's file if that can be run alone, else by the test."""
    from controlplane.scenarios.engine.allowed_code import allowance

    if _stands_alone(short.plan.scenario, request):
        return f"controlplane replay {folder / 'run.rec'}{allowance(short.plan.header())}"
    _, _, within = request.node.nodeid.partition("::")
    return f"python -m pytest {shlex.quote(f'{request.path}::{within}')} {STORED}"


def _stands_alone(scenario: Scenario, request: pytest.FixtureRequest) -> bool:
    """Return whether `controlplane replay` can find a scenario by its address.

    One in a test's file is found if it is the only one there, is made there at the top, and the file imports nothing
    of its project but neighbours.
    """
    from controlplane.scenarios.engine.scenario import Scenario as Known

    path = request.path
    if scenario.origin is None or scenario.origin.address != path.as_posix():
        return scenario.origin is not None
    module = request.module
    held = {name: value for name, value in vars(module).items() if isinstance(value, Known)}
    if module.__package__ or any(each.workload is not scenario.workload for each in held.values()):
        return False
    tree = ast.parse(path.read_bytes())
    return bool(held.keys() & _assigned(tree)) and not any(
        _is_elsewhere(name, path, request.config.rootpath) for name in _imported(tree)
    )


def _assigned(tree: ast.Module) -> set[str]:
    """Return the names to which calls are assigned at the top of a module."""
    found = [node for node in tree.body if isinstance(node, ast.Assign)]
    targets = [each for node in found if isinstance(node.value, ast.Call) for each in node.targets]
    return {each.id for each in targets if isinstance(each, ast.Name)}


def _imported(tree: ast.Module) -> list[str]:
    """Return the modules that a module imports at its top."""
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or ".")
    return found


def _is_elsewhere(name: str, path: Path, root: Path) -> bool:
    """Return whether a module belongs to the project, and is no neighbour of a file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name == "."
    return Path(file).is_relative_to(root) and Path(file).parent != path.parent
