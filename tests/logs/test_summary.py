"""A run at a glance, and the lives of its pods."""

from __future__ import annotations

from collections import Counter

from controlplane.logs.pod_lifetimes import PodLifetimes
from controlplane.logs.summary import summarise
from tests.logs.made import event, step

POD = "Pod/d/p"


def write(number, verb, *, uid="u1", t=None, code=200, rv=None, **data):
    at = number / 1 if t is None else t
    return event(number, "apiserver.write", POD, uid=uid, rv=rv, t=at, verb=verb, code=code, **data)


def lives(*lines) -> PodLifetimes:
    found = PodLifetimes()
    for line in lines:
        found.add(line)
    return found


def test_a_real_runs_numbers_are_those_of_its_lines(run_log, plain_lines):
    told = summarise(run_log).to_json()
    assert told["header"] == plain_lines[0]["data"]
    assert told["events"] == len(plain_lines)
    assert told["steps"] == sum("level" not in line for line in plain_lines)
    assert (told["run"], told["t"]) == (plain_lines[-1]["run"], plain_lines[-1]["t"])
    assert (told["verdict"], told["reason"]) == ("quiescent", "only periodic work is left")
    by_actor = Counter(line["actor"] for line in plain_lines if "level" not in line)
    assert {name: each["steps"] for name, each in told["actors"].items()} == by_actor
    writes = [line["data"] for line in plain_lines if line["event"] == "apiserver.write"]
    good = Counter(each["verb"] for each in writes if each["code"] < 300)
    assert told["writes"] == good
    assert sum(each["writes"] for each in told["actors"].values()) == good.total()
    assert sum(told["refused"].values()) == len(writes) - good.total()
    assert told["refused"]["create pods: 409 AlreadyExists"] == 1
    assert told["conflicts"] == 1  # what exists already is none
    assert told["faults"]["cut node-2-apiserver"] == told["faults"]["crash node-1"] == 1
    names = Counter(line["event"] for line in plain_lines)
    assert told["scheduling"] == {
        "attempts": names["scheduler.assumed"] + names["scheduler.failed"],
        "failed": names["scheduler.failed"],
    }


def test_what_waits_to_the_end_is_among_the_slowest(run_log):
    told = summarise(run_log)
    assert told.pods == {"Pending": 1, "Running": 4, "gone": 1}
    first, *rest = told.slowest
    assert (first.obj, first.took, first.node) == ("Pod/default/too-big", told.t, "")
    assert [life.took for life in rest] == sorted((life.took for life in rest), reverse=True)


def test_a_log_that_ends_among_steps_is_counted_to_its_end():
    told = summarise([event(1, "node.error", t=1.0), step(2, "a", t=2.0), step(3, "a", t=7.5)])
    assert (told.run, told.t, told.steps, told.verdict) == ("r", 7.5, 3, "")
    assert summarise([]).to_json()["events"] == 0


def test_trouble_and_retries_are_counted_by_name():
    retry = event(1, "controller.retry", level="debug", controller="job", key="d/j", error="e")
    told = summarise([retry, retry, event(2, "kubelet.error", level="warning", message="m")])
    assert (told.retries, told.errors) == ({"job": 2}, {"kubelet.error": 1})


def test_a_life_has_a_time_for_each_thing_that_happened():
    (life,) = lives(
        write(1, "create pods", phase="Pending"),
        event(2, "scheduler.popped", POD, uid="u1", t=2.0),
        event(3, "scheduler.failed", POD, uid="u1", t=3.0),
        event(4, "scheduler.popped", POD, uid="u1", t=4.0),
        write(5, "create pods/binding", code=409),
        write(6, "create pods/binding", node="n"),
        write(7, "patch pods/status", phase="Running", ready=False),
        write(8, "patch pods/status", phase="Running", ready=True),
        write(9, "delete pods", phase="Running", terminating=True),
        write(10, "delete pods", phase="Running", terminating=True),
        event(11, "informer.told", POD, uid="u1", t=11.0, kind="delete"),
        event(12, "informer.told", POD, uid="u1", t=12.0, kind="delete"),
    ).all
    assert life.to_json() == {
        "obj": POD,
        "uid": "u1",
        "node": "n",
        "phase": "gone",
        "attempts": 2,
        "created": 1.0,
        "popped": 2.0,
        "bound": 6.0,
        "running": 7.0,
        "ready": 8.0,
        "terminating": 9.0,
        "gone": 11.0,
    }


def test_a_pod_is_gone_with_the_write_that_removed_it():
    (life,) = lives(
        write(1, "create pods", phase="Pending"),
        write(2, "delete pods", phase="Pending", terminating=True),
        event(2, "apiserver.removed", POD, uid="u1", t=2.0, level="trace"),
        event(5, "informer.told", POD, uid="u1", t=5.0, kind="delete"),
    ).all
    assert (life.terminating, life.gone) == (2.0, 2.0)


def test_incarnations_of_one_name_are_told_apart():
    first, second = lives(
        write(1, "create pods", phase="Pending"),
        write(2, "create pods", uid="u2", phase="Pending"),
        event(3, "scheduler.failed", POD, uid="u1", t=3.0),  # it had been popped before
        event(4, "scheduler.popped", POD, uid="u2", t=4.0),
        event(5, "informer.told", POD, uid="u1", t=5.0, kind="delete"),
    ).all
    assert (first.gone, first.attempts, first.popped) == (2.0, 1, None)
    assert (second.gone, second.attempts, second.popped) == (None, 0, 4.0)


def test_a_pod_that_never_was_bound_waited_until_it_was_gone():
    found = lives(write(1, "create pods"), write(4, "delete pods"))
    assert [life.took for life in found.slowest(5, end=9.0)] == [3.0]
    assert [life.took for life in lives(write(1, "create pods")).slowest(5, end=9.0)] == [8.0]


def test_of_a_log_without_steps_who_wrote_is_known():
    told = summarise(
        [write(1, "create pods", by="user"), write(2, "create pods", by="user", code=409)]
    )
    assert (told.actors["user"].writes, told.actors["user"].refused) == (1, 1)
