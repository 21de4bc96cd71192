from __future__ import annotations

from controlplane.page.comparing import difference
from controlplane.page.recorded import recorded


def test_a_run_does_not_differ_from_itself(broken) -> None:
    assert difference(broken, broken) == {"same": True}


def test_two_runs_part_at_a_step_that_both_have_until_then_alike(runs, broken) -> None:
    fixed = recorded(runs[1])
    found = difference(broken, fixed)
    assert not found["same"]
    same = [
        (line.event, line.actor) for line in broken.log if line.step < found["sides"][0]["step"]
    ]
    other = [
        (line.event, line.actor) for line in fixed.log if line.step < found["sides"][0]["step"]
    ]
    shared = min(len(same), len(other), found["same_events"])
    assert same[:shared] == other[:shared]
    assert found["step"] <= broken.model.step


def test_the_first_choice_that_differs_is_named_with_both_answers(broken) -> None:
    from controlplane.page.model import Model

    one, other = Model(), Model()
    for model, value in ((one, 2), (other, 2)):
        model.add_choice(3, 0, "task", 4, value, "a/main")
    one.add_choice(5, 4, "task", 3, 1, "b/main")
    other.add_choice(9, 7, "task", 3, 2, "c/main")
    from controlplane.page.comparing import _first_choice

    found = _first_choice(one, other)
    assert found == {
        "step": 5,
        "index": 4,
        "what": "of 3 (task), A took number 2 (b/main), B the first",
    }
