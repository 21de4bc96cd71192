"""Chains of causes: back from a step to what led to it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from controlplane.logs.causes import chain
from controlplane.logs.reading import RunLog


@pytest.fixture
def log_of(tmp_path):
    """Makes a log of steps (number, t, actor, task, point, cause) and events (number, actor, task, event, data)."""

    def make(*lines) -> RunLog:
        path = tmp_path / "log.jsonl"
        base = {"run": "r"}
        made = []
        for line in lines:
            if len(line) == 6:
                names = ("step", "t", "actor", "task", "event", "cause")
                fields = dict(zip(names, line, strict=True))
                fields["cause"] = [fields["cause"]] if fields["cause"] else []
            else:
                names = ("step", "actor", "task", "event", "cause", "level", "data")
                fields = {**dict(zip(names, line, strict=True)), "t": line[0] / 10}
            made.append(json.dumps({**base, **fields}) + "\n")
        path.write_text("".join(made))
        return RunLog(path)

    return make


def test_a_message_leads_to_who_sent_it_not_to_who_had_woken_the_task(log_of):
    log = log_of(
        (1, 0, "user", "main", "start", 0),
        (2, 0, "other", "main", "start", 0),
        (3, 0, "server", "main", "recv", 2),
        (3, "server", "main", "message", [1], "trace", {"from": "user", "message": "get pods"}),
        (3, "server", "main", "node.error", [3], "warning", {"message": "no"}),
    )
    first, second = chain(log, 3)
    assert (first.did, first.by) == (("node.error: no",), "get pods from user")
    assert (second.step, second.actor, second.point) == (1, "user", "start")


def test_steps_of_one_task_are_one_hop_as_far_as_it_did_not_wait(log_of):
    log = log_of(
        (1, 0, "user", "main", "start", 0),
        (2, 0, "node", "main", "start", 1),
        (3, 1, "node", "main", "sleep", 2),
        (4, 5, "node", "main", "sleep", 3),
        (5, 5, "node", "main", "work", 4),
    )
    hops = [(hop.step, hop.actor, hop.point, hop.by) for hop in chain(log, 5)]
    assert hops == [
        (5, "node", "work", "after 4s"),
        (2, "node", "start", ""),
        (1, "user", "start", ""),
    ]


def test_a_chain_has_so_many_hops_and_ends_with_a_damaged_log(log_of):
    turns = [(n, 0, f"a{n % 2}", "main", "p", n - 1) for n in range(1, 40)]
    log = log_of(*turns)
    assert [hop.step for hop in chain(log, 39, hops=5)] == [39, 38, 37, 36, 35]
    assert chain(log, 99) == []
    assert chain(log, 0) == []
    lost = log_of(*turns[20:])
    assert [hop.step for hop in chain(lost, 25)] == [25, 24, 23, 22, 21]
    circle = log_of((5, 0, "a", "main", "p", 5), (6, 0, "b", "main", "p", 9))
    assert [hop.step for hop in chain(circle, 5)] == [5]
    assert [hop.step for hop in chain(circle, 6)] == [6]


def test_every_chain_of_a_real_run_goes_back_in_time_along_its_causes(run_log, run_lines):
    causes: dict[int, set[int]] = {}
    for line in run_lines:
        causes.setdefault(line.step, set()).update(line.cause)
    for step in range(1, run_log.last().step + 1, 29):
        hops = chain(run_log, step, hops=6)
        assert hops[0].step == step
        assert len(hops) <= 6
        for later, earlier in pairwise(hops):
            assert earlier.step < later.step
            assert earlier.t <= later.t
            reached = {later.step}
            for _ in range(500):  # through the steps that are one hop
                if earlier.step in reached:
                    break
                reached |= {c for at in reached for c in causes.get(at, ()) if c >= earlier.step}
            assert earlier.step in reached


def test_a_binding_goes_back_to_the_schedulers_decision_and_what_woke_it(run_log, run_lines):
    (bound,) = [
        line
        for line in run_lines
        if line.event == "apiserver.write"
        and line.obj == "Pod/default/late"
        and line.data["verb"] == "create pods/binding"
    ]
    first, second, *rest = chain(run_log, bound.step, about=bound.obj)
    assert first.did == (f"bound Pod/default/late to {bound.data['node']} by scheduler",)
    assert first.by == "create pods/binding from scheduler"
    assert second.actor == "scheduler"
    assert any("chose" in did for hop in (second, *rest) for did in hop.did)
