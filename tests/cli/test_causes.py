"""Every failure of a search is named: two exceptions of one scenario are two failures, each with its cause."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_names import _ask

SCENARIO = '''
"""Users that fail in two ways."""
from controlplane.cluster import ClusterConfig
from controlplane.scenarios import Invariant, Scenario


async def user(user):
    await user.point("mine.begin")
    which = user.choose(3, "which")
    if which == 1:
        raise KeyError("first")
    if which == 2:
        raise ValueError("second")


SCENARIO = Scenario(
    "two exceptions",
    workload=user,
    build=lambda _setting: ClusterConfig(nodes=(), kubelets=False, controllers=False, schedulers=0),
    invariants=[Invariant("nothing", lambda _run: None)],
)
'''


@pytest.fixture
def explored(monkeypatch, capsys, tmp_path):
    (tmp_path / "mine.py").write_text(SCENARIO)
    monkeypatch.chdir(tmp_path)

    def explore(*more):
        asked = ("explore", "mine.py", "--schedules", "40", "--jobs", "1", "--all")
        status, out, error = _ask(monkeypatch, capsys, *asked, *more)
        assert status == 1, error
        return out

    return explore


def test_with_all_every_failure_is_named(explored):
    out = explored()
    assert "2 different failures" in out
    told = out.partition("The other failures:")
    assert "at fault: the scenario's own code, at mine.py:" in told[0]
    assert "at fault: the scenario's own code, at mine.py:" in told[2]
    assert ("KeyError" in told[2]) != ("ValueError" in told[2])


def test_programs_get_the_cause_of_every_failure(explored):
    told = json.loads(explored("--format", "json"))
    assert [each["cause"]["at_fault"] for each in told["findings"]] == ["scenario"] * 2
    assert explored("--format", "junit").count("at fault: the scenario") == 2


def test_without_shrinking_it_is_said_that_no_cause_was_looked_for(explored):
    assert "its cause was not looked for" in explored("--shrink", "0")
