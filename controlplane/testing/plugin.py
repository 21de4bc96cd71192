"""The pytest fixture `explore`: search a scenario's schedules, and fail with the story of what was found.

    SCENARIO = Scenario("mine", workload=workload, invariants=(never_twice,))

    def test_nothing_breaks(explore):
        explore(SCENARIO, schedules=300)

What was found is made short, kept below `.controlplane/findings/`, and the failure names the command
that repeats it. `--explore-schedules N` and `--explore-seed N` widen all searches of a test run;
`controlplane replay` finds the scenario again when it is the only one in its test file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Exploration
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Scenario

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


def _told(plan: Plan, found: Exploration, request: pytest.FixtureRequest, shrinks: int) -> str:
    from controlplane.scenarios.engine.allowed_code import allowance
    from controlplane.scenarios.search.shrinking import shorten
    from controlplane.scenarios.search.story import story_of

    finding = found.findings[0]
    short = shorten(plan, finding.result.choices, runs=shrinks)
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    folder = request.config.rootpath / FINDINGS / name
    short.failing.save(folder, short.recording())
    lines = [
        f"schedule {finding.schedule} of {plan.scenario.name!r} breaks something:",
        "",
        *(f"  {line}" for line in story_of(short).lines()),
        "",
        f"repeat it with: controlplane replay {folder / 'run.rec'}{allowance(plan.header())}",
    ]
    return "\n".join(lines)
