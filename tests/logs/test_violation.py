"""Which events tell a violation, and in which words."""

from __future__ import annotations

import re

from controlplane.logs import event_weights
from controlplane.logs.reading import Kept
from controlplane.logs.syncs import Walk
from controlplane.logs.violation import LINES, tell
from controlplane.logs.violation_objects import ViolationObjects
from tests.logs.made import event, step

WEB = "Pod/default/web"


def write(number, verb, obj=WEB, by="user", code=200, **rest):
    return event(
        number, "apiserver.write", obj, actor="apiserver", verb=verb, by=by, code=code, **rest
    )


def changed(number, obj, rv, *fields):
    return event(
        number,
        "apiserver.changed",
        obj,
        actor="apiserver",
        level="trace",
        rv=rv,
        fields=list(fields),
    )


def told(*lines, reason="law: default/web waits for ever", settled=False):
    end = max(line.step for line in lines) + 1
    verdicts = [event(end, "verdict", actor="world", verdict="violated", reason=reason)]
    if settled:
        verdicts.insert(0, event(end, "verdict", actor="world", verdict="quiescent", reason="r"))
    log = Kept([*lines, *verdicts])
    return [f"{each.actor}: {each.what}" for each in tell(log, reason, verdicts[-1])]


def test_never_more_lines_than_fifteen_and_the_loudest_are_kept():
    noise = [
        event(n, "informer.told", WEB, level="trace", rv=n, kind="update") for n in range(2, 90)
    ]
    lines = told(
        write(1, "create pods", rv=1, uid="u"),
        *noise,
        event(95, "fault", actor="user", fault="crash", actor_="", level="warning"),
        write(96, "delete pods", rv=99, uid="u"),
    )
    assert len(lines) <= LINES
    assert any("created Pod/default/web by user" in line for line in lines)
    assert any("fault: crash" in line for line in lines)
    assert any("deleted Pod/default/web by user" in line for line in lines)


def test_the_stop_at_the_end_of_a_workload_is_no_part_of_the_story():
    stop = event(9, "fault", actor="user", level="warning", fault="crash")
    verdict = event(9, "verdict", actor="world", verdict="quiescent", reason="r")
    end = event(9, "verdict", actor="world", verdict="violated", reason="law: default/web waits")
    log = Kept([write(1, "create pods", rv=1), stop, verdict, end])
    assert not any("fault:" in each.what for each in tell(log, "law: default/web waits", end))


def test_what_repeats_is_told_twice_and_counted():
    failures = [
        event(n, "scheduler.failed", WEB, uid="u", attempt=n, reason="Unschedulable", message="m")
        for n in range(2, 12)
    ]
    lines = told(write(1, "create pods", rv=1, uid="u"), *failures)
    found = [line for line in lines if "failed (Unschedulable)" in line]
    assert len(found) == 2
    assert "(and again, 8 times until the last)" in found[0]


def test_what_repeats_in_a_log_too_long_to_count_is_told_without_a_number(monkeypatch):
    monkeypatch.setattr(event_weights, "KEPT", 5)
    failures = [
        event(n, "scheduler.failed", WEB, uid="u", attempt=n, reason="Unschedulable", message="m")
        for n in range(2, 12)
    ]
    found = [line for line in told(*failures) if "failed (Unschedulable)" in line]
    assert len(found) == 2
    assert "(and again and again until the last)" in found[0]


def test_a_write_says_what_it_changed_and_whether_the_object_went():
    (line,) = [
        line
        for line in told(
            write(1, "patch pods", rv=7, uid="u"),
            changed(
                1,
                WEB,
                7,
                "metadata.finalizers[-x]",
                "status.conditions[Ready].status",
                "status.conditions[Ready].lastTransitionTime",
            ),
            event(1, "apiserver.removed", WEB, actor="apiserver", level="trace", rv=7),
        )
        if "patched" in line
    ]
    assert line.endswith(
        "changed metadata.finalizers[-x], status.conditions[Ready], and it is gone"
    )


def test_a_stale_read_that_was_used_is_told_with_what_came_of_it():
    lines = told(
        step(1, "apiserver"),
        write(1, "create pods", rv=1, uid="u"),
        step(2, "apiserver"),
        write(2, "patch pods", rv=2, uid="u"),
        step(3, "controller", "worker"),
        event(
            3, "informer.read", WEB, actor="controller", task="worker", level="trace", rv=1, uid="u"
        ),
        step(4, "apiserver", cause=(3,)),
        write(4, "update pods", by="controller", rv=None, code=409, reason="Conflict", based_on=1),
    )
    assert any(
        re.search(r"controller: read .* - STALE: the store had version 2, and it was used", line)
        for line in lines
    )


VISITORS = "ConfigMap/default/visitors"


def _read(number, obj, rv, actor="user", name="client.read"):
    return (
        step(number, actor),
        event(number, name, obj, actor=actor, level="trace", rv=rv, uid="u"),
    )


def _taken(number, sent, verb, obj, rv, by="user"):
    return (
        step(sent, by),
        step(number, "apiserver", cause=(sent,)),
        write(number, verb, obj, by=by, rv=rv, uid="u"),
    )


def test_a_lost_update_is_told_by_its_reads_and_without_the_nodes():
    lines = told(
        write(1, "create nodes", "Node/node-1", by="node-1", rv=1, uid="n"),
        event(
            1,
            "apiserver.audited",
            "Lease/n/node-1",
            actor="apiserver",
            level="trace",
            agent="node-1",
            code=404,
            verb="get",
            resource="leases",
        ),
        event(1, "informer.synced", actor="node-1", level="debug", resource="pods", count=0),
        write(2, "create configmaps", VISITORS, rv=2, uid="u"),
        *_read(3, VISITORS, 2),
        *_read(4, VISITORS, 2, actor="user-2"),
        write(5, "patch nodes", "Node/node-1", by="node-1", rv=3, uid="n"),
        *_taken(7, 6, "update configmaps", VISITORS, 4),
        *_taken(9, 8, "update configmaps", VISITORS, 5, by="user-2"),
        reason="none is missing: 2 came, 1 counted",
    )
    assert not any("node-1" in line for line in lines)
    assert len(lines) == 5
    assert "user: read ConfigMap/default/visitors" in lines[1]
    assert "user-2: read ConfigMap/default/visitors" in lines[2]
    assert "STALE: the store had version 4, and it was used" in lines[2]
    assert "on the read at step 3" in lines[3]
    assert "on the read at step 4" in lines[4]


def test_a_stale_read_of_another_object_is_told_with_the_write_that_overtook_it():
    lines = told(
        write(1, "create deployments", "Deployment/default/a", rv=1, uid="a"),
        *_read(2, "Deployment/default/a", 1, actor="controller", name="informer.read"),
        *_taken(4, 3, "patch deployments", "Deployment/default/a", 2),
        *_taken(6, 5, "create pods", WEB, 3, by="controller"),
    )
    assert any(
        "read Deployment/default/a" in line and f"it was used: create pods of {WEB}" in line
        for line in lines
    )
    assert any("patched Deployment/default/a" in line for line in lines)


def test_what_was_written_in_the_turn_of_a_named_object_has_to_do_with_it():
    def sync(number, key, other):
        return (
            step(number, "controller", "worker"),
            event(
                number,
                "controller.popped",
                actor="controller",
                task="worker",
                level="trace",
                controller="c",
                key=key,
            ),
            event(
                number,
                "informer.read",
                f"Pod/{key}",
                actor="controller",
                task="worker",
                level="trace",
                rv=1,
                uid=key,
            ),
            step(number + 1, "apiserver", cause=(number,)),
            write(number + 1, "patch configmaps", other, by="controller", rv=number),
        )

    walk = Walk(ViolationObjects("law: default/web waits"))
    for line in (
        event(1, "informer.synced", actor="controller", level="debug", resource="pods"),
        write(1, "create pods", rv=1, uid="u"),
        *sync(2, "default/web", "ConfigMap/default/its"),
        *sync(4, "default/other", "ConfigMap/default/anothers"),
    ):
        walk.meet(line)
    assert walk.scene.related == {"ConfigMap/default/its"}


def test_what_was_asked_and_not_answered_yet_is_told():
    log = Kept(
        [
            step(1, "controller", "worker"),
            step(2, "apiserver", cause=(1,)),
            event(
                2,
                "message",
                actor="apiserver",
                level="trace",
                cause=(1,),
                **{"from": "controller", "message": "create pods"},
            ),
            step(3, "etcd", cause=(2,)),
            event(3, "verdict", actor="world", verdict="violated", reason="law: 4 pods for 3"),
        ]
    )
    last = log.last()
    assert last is not None
    found = [each.what for each in tell(log, "law: 4 pods for 3", last)]
    assert found == ["was asked by controller: create pods"]
