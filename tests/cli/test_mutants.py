"""`controlplane race mutants`: the share of small mistakes that the searches find."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_run import controlplane


@pytest.mark.slow
def test_mutants_are_drawn_tried_and_counted() -> None:
    asked = ("race", "mutants", "storage", "--sample", "2", "--schedules", "2")
    done = controlplane(*asked, "--reach-seconds", "1", "--format", "json")
    told = json.loads(done.stdout)
    assert len(told) == 2
    assert {each["outcome"] for each in told} <= {"found", "survived", "not-reached", "broken"}
    assert all(each["mutant"].startswith("controlplane.controllers.storage") for each in told)


def test_a_component_that_is_not_there_is_an_error() -> None:
    done = controlplane("race", "mutants", "kubelets")
    assert done.returncode == 2
