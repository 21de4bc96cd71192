"""Objects and requests that ask for absurd work do not stop a served world for other clients."""

from __future__ import annotations

import json

import pytest

from tests.chaos.stalling_objects import cases
from tests.chaos.stalls import Watch, measured

CASES = {case.name: case for case in cases()}


@pytest.mark.slow
def test_the_cases_have_names_of_their_own_and_bodies_that_are_taken():
    assert len(CASES) == len(list(cases()))
    for case in CASES.values():
        for each in case.requests:
            if not callable(each):
                assert len(json.dumps(each[2], default=str)) <= 4 << 20, case.name


def test_a_turn_that_takes_too_long_is_given_up():
    given_up = []
    watch = Watch(lambda: given_up.append(True))
    watch.before_task_step(None)
    watch.begun -= 100
    watch.sample(0, None)
    assert given_up == [True]
    assert watch.longest >= 4


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_no_other_client_waits(name):
    outcome = measured(CASES[name])
    assert outcome.fine, (outcome.waited, outcome.turn, outcome.failed)
