"""The cause of a finding: a published race by its fix, the emulator, or the scenario's own code."""

from __future__ import annotations

import pytest
from attrs import evolve

from controlplane.gates import CATALOGUE, fix_gates
from controlplane.races import catalogue
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import naming
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scenarios.search.naming import cause_of, open_races, repaired
from controlplane.scenarios.search.shrinking import shorten


def short_of(plan, schedules=400):
    [finding] = Campaign(plan).explore(schedules).findings
    return shorten(plan, finding.result.choices)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "standing"),
    [("140177", "open upstream"), pytest.param("138324", "fixed in 1.34", marks=pytest.mark.slow)],
)
def test_a_published_race_is_known_by_its_fix(number, standing):
    plan = plan_of(catalogue.find(number).scenario, without_fix=(number,))
    cause = cause_of(short_of(plan))
    assert (cause.at_fault, [each.number for each in cause.known]) == ("Kubernetes", [number])
    gate = CATALOGUE[number]
    assert cause.lines() == [f"known: {number}, {standing} ({gate.component}): {gate.title}"]
    assert cause.to_json()["known"][0]["number"] == number


def _bare(setting):
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(nodes=(), kubelets=False, controllers=False, scheduler=False)


async def _workload(user):
    await user.sleep(1)


async def _raises(user):
    await user.sleep(1)
    raise ValueError("mine")


def _never(run):
    return "not so" if run.world.now else None


def scenario(workload, *invariants):
    return Scenario("s", workload=workload, build=_bare, invariants=invariants)


def test_an_invariant_that_no_repair_saves_has_no_known_cause():
    short = short_of(plan_of(scenario(_workload, Invariant("never", _never))), 1)
    assert cause_of(short) == naming.Cause()
    assert cause_of(short).lines() == []


def test_an_exception_in_the_workload_is_the_scenarios():
    cause = cause_of(short_of(plan_of(scenario(_raises)), 1))
    assert cause.at_fault == "scenario"
    assert cause.where.startswith("test_naming.py:")
    assert "the scenario's own code" in cause.lines()[0]


def test_an_exception_in_a_component_is_the_emulators(monkeypatch):
    from controlplane.scenarios.engine import user as users

    source = compile("def get(self, *_):\n    raise KeyError('x')\n", users.__file__, "exec")
    made = {}
    exec(source, made)
    monkeypatch.setattr(users.User, "get", made["get"])

    async def workload(user):
        await user.get("ConfigMap", "c")

    cause = cause_of(short_of(plan_of(scenario(workload)), 1))
    assert (cause.at_fault, cause.where) == ("emulator", "user.py:2")


@pytest.mark.slow
def test_no_run_is_taken_once_it_is_over():
    plan = plan_of(catalogue.find("140177").scenario)
    assert cause_of(short_of(plan), over=lambda: True).known == ()


def test_repairs_are_in_their_most_complete_forms():
    gates = fix_gates(without=("138324",))
    races = open_races(gates)
    assert "138324" in [each.number for each in races]
    closed = repaired(gates, races)
    assert open_races(closed) == ()
    assert closed.variant("138324") == "no-stand-in"


@pytest.mark.slow
def test_a_search_with_all_repairs_does_not_find_an_open_race():
    plan = plan_of(catalogue.find("140177").scenario)
    fixed = evolve(plan, gates=repaired(plan.gates, open_races(plan.gates)))
    assert Campaign(plan).explore(100).findings
    assert Campaign(fixed).explore(100).findings == ()


async def _not_there(user):
    await user.delete("Pod", "nobody")


def test_an_answer_that_a_scenario_does_not_expect_is_the_fault_of_the_scenario():
    scenario = Scenario("unexpected", workload=_not_there, build=_bare)
    cause = cause_of(short_of(plan_of(scenario)))
    assert cause.at_fault == "scenario"
    assert "test_naming.py:" in cause.lines()[0]


def test_a_wait_of_a_scenario_in_yaml_is_the_fault_of_the_scenario(tmp_path):
    from controlplane.scenarios.search import loading

    path = tmp_path / "wait.yaml"
    path.write_text(
        "scenario: wait\nusers:\n  user:\n"
        "    - wait-for: {kind: Pod, count: 1, timeout: 5}\n"
        "invariants: [every pod gets a node]\n"
    )
    cause = cause_of(short_of(plan_of(loading.from_file(path))))
    assert cause.at_fault == "scenario"
    assert cause.lines() == ["at fault: the scenario's own code, which did not expect that"]
