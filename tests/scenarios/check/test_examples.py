"""The eight published cases: each is found from its manifests, and its sound twin has no finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.scenarios.check.campaign import Check
from controlplane.scenarios.engine.plan import plan_of
from tests.scenarios.check.worlds import SCENARIO

EXAMPLES = Path(__file__).parents[3] / "examples" / "check"
CASES = {
    "startup-load": ("unstable-replicas", "apply"),
    "replicas-in-manifest": ("below-minimum", "apply"),
    "two-spreads": ("no-node", "load"),
    "overload": ("cascade", "lose:node-1"),
    "duplicates": ("never-at-rest", "apply"),
    "maintenance": ("outage", "drain"),
    "node-name": ("never-at-rest", "taint"),
    "soft-spread": ("never-at-rest", "apply"),
}
"""By case, the verdict, and the event that shows it."""


def check(kind: str, name: str, *, only: tuple[str, ...] = (), schedules: int = 1) -> list[str]:
    path = EXAMPLES / kind / f"{name}.yaml"
    options = {}
    if "kind: Node" not in path.read_text():
        options["nodes"] = 2 if (kind, name) == ("broken", "maintenance") else 3
    policy = EXAMPLES / f"{name}-policy{'-sound' if kind == 'sound' else ''}.yaml"
    if policy.exists():
        options |= {"with": ("descheduler",), "descheduler_policy": str(policy)}
    tried = Check(plan_of(SCENARIO, files=(str(path),), **options), schedules, only=only)
    found = tried.run()
    assert tried.problems == []
    return [each.finding.verdict for each in found]


def test_each_example_has_a_case():
    assert {path.stem for path in (EXAMPLES / "broken").iterdir()} == set(CASES)
    assert {path.stem for path in (EXAMPLES / "sound").iterdir()} == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_published_case_is_found(name):
    verdict, event = CASES[name]
    assert verdict in check("broken", name, only=(event,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_its_sound_twin_has_no_finding(name):
    _, event = CASES[name]
    assert check("sound", name, only=(event,)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_its_sound_twin_has_none_under_all_events(name):
    assert check("sound", name, schedules=2) == []
