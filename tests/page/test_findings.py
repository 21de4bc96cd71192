from __future__ import annotations


def test_the_stale_read_that_the_violation_rests_on_stands_first(broken) -> None:
    first = broken.model.findings["stale"][0]
    assert first["used"]
    assert first["in_story"]
    assert first["obj"].startswith("Pod/default/")
    assert first["actor"] == "scheduler"


def test_a_stale_read_names_the_write_that_overtook_it(broken) -> None:
    first = broken.model.findings["stale"][0]
    (wrote,) = [
        line
        for line in broken.log
        if line.event == "apiserver.write"
        and (line.obj, line.rv) == (first["obj"], first["newest"])
    ]
    assert first["overtaken_by"] == wrote.step < first["used_step"]


def test_the_story_is_told_in_order_of_steps(broken) -> None:
    steps = [step for step, *_ in broken.model.findings["entries"]]
    assert steps == sorted(steps)
    assert broken.model.findings["sentence"].startswith("violated: ")
