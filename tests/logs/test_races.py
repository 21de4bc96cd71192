"""Stale reads, what was written on them, and writes in no causal order."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.logs.races import PAIRS, READS, find
from controlplane.logs.reading import RunLog
from tests.logs.made import event, step

OBJ = "ConfigMap/d/c"


class Log:
    """A log made event by event; each write is sent in a step of its client and answered in one of the server."""

    def __init__(self) -> None:
        self.lines = []
        self.now = 0

    def _step(self, actor, task="main", cause=()) -> int:
        self.now += 1
        self.lines.append(step(self.now, actor, task, cause, t=float(self.now)))
        return self.now

    def sends(self, actor, task="main") -> int:
        """The step in which a client sends a request, to be answered later."""
        return self._step(actor, task)

    def answers(self, sent, by, verb, rv, uid="u1", code=200, **data) -> int:
        """The server takes a request and answers."""
        now = self._step("apiserver", cause=(sent,))
        self.lines.append(
            event(
                now,
                "apiserver.write",
                OBJ,
                actor="apiserver",
                t=float(now),
                rv=rv,
                uid=uid,
                verb=f"{verb} configmaps",
                code=code,
                by=by,
                **data,
            )
        )
        return now

    def writes(self, by, verb, rv, task="main", **rest) -> int:
        """Both at once."""
        return self.answers(self.sends(by, task), by, verb, rv, **rest)

    def hears(self, actor, name, rv, uid="u1", task="main", **data) -> int:
        """An actor reads, or is told."""
        now = self._step(actor, task)
        self.lines.append(
            event(
                now,
                name,
                OBJ if rv else "",
                actor=actor,
                task=task,
                level="trace",
                t=float(now),
                rv=rv,
                uid=uid,
                **data,
            )
        )
        return now


def test_a_stale_read_says_how_far_behind_it_was_and_what_was_written_on_it():
    log = Log()
    log.writes("a", "create", 1)
    log.writes("a", "update", 2)
    log.writes("a", "update", 3)
    read = log.hears("b", "informer.read", 1, task="worker")
    used = log.writes("b", "update", None, "worker", code=409, reason="Conflict")
    (stale,) = find(log.lines).stale
    assert stale.to_json() == {
        "step": read,
        "t": float(read),
        "actor": "b",
        "task": "worker",
        "obj": OBJ,
        "read": 1,
        "newest": 3,
        "behind": 2,
        "late": 3.0,
        "other_incarnation": False,
        "used": "update configmaps: 409 Conflict",
        "used_step": used,
        "written": OBJ,
    }


OTHER = "ConfigMap/d/other"


def _about_another(log, number=-1):
    """Let the latest event be about another object."""
    log.lines[number] = replace(log.lines[number], obj=OTHER)


def test_a_write_rests_on_a_stale_read_of_another_object_in_the_same_reconcile():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "controller.popped", None, task="worker", key="d/c")
    read = log.hears("b", "informer.read", 1, task="worker")
    log.writes("a", "update", 2)
    used = log.writes("b", "create", 3, "worker", code=201, uid="u2")
    _about_another(log)
    (stale,) = find(log.lines).used
    assert (stale.step, stale.obj, stale.newest) == (read, OBJ, 2)
    assert (stale.used_step, stale.written) == (used, OTHER)
    assert stale.used == f"create configmaps of {OTHER}: 201"


def test_a_write_does_not_rest_on_reads_for_an_earlier_key():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.read", 1, task="worker")
    log.writes("a", "update", 2)
    log.hears("b", "controller.popped", None, task="worker", key="d/other")
    log.writes("b", "create", 3, "worker", code=201, uid="u2")
    _about_another(log)
    assert find(log.lines).used == []


def test_a_task_does_not_overtake_its_own_reads():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.read", 1, task="worker")
    log.writes("b", "patch", 2, "worker", based_on=1)
    log.writes("b", "create", 3, "worker", code=201, uid="u2")
    _about_another(log)
    assert find(log.lines).used == []


@pytest.mark.parametrize("reports", ["Event/d/e", "Lease/d/l"])
def test_events_and_leases_rest_on_no_read(reports):
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.read", 1, task="worker")
    log.writes("a", "update", 2)
    log.writes("b", "create", 3, "worker", code=201, uid="u2")
    log.lines[-1] = replace(log.lines[-1], obj=reports)
    assert find(log.lines).used == []


def test_a_write_without_a_version_names_the_read_it_rests_on():
    log = Log()
    log.writes("a", "create", 1)
    read = log.hears("b", "client.read", 1)
    blind = log.writes("b", "update", 2)
    log.hears("b", "client.read", 2)
    log.writes("b", "update", 3, based_on=2)
    assert find(log.lines).basis == {(blind, OBJ): read}


def test_what_another_task_of_the_actor_writes_was_not_based_on_the_read():
    log = Log()
    log.writes("a", "create", 1)
    log.writes("a", "update", 2)
    log.hears("b", "informer.read", 1, task="worker")
    log.writes("b", "update", 3, "main")
    found = find(log.lines)
    assert (len(found.stale), found.used) == (1, [])


def test_a_read_overtaken_before_its_write_was_sent_is_stale():
    log = Log()
    log.writes("a", "create", 1)
    read = log.hears("b", "client.read", 1)
    log.writes("a", "update", 2)
    used = log.writes("b", "update", 3)
    (stale,) = find(log.lines).used
    assert (stale.step, stale.newest, stale.used_step) == (read, 2, used)


def test_who_writes_twice_on_one_read_is_overtaken_by_itself():
    log = Log()
    log.writes("a", "create", 1)
    read = log.hears("b", "informer.read", 1)
    log.writes("b", "update", 2, based_on=1)
    used = log.writes("b", "update", None, code=409, reason="Conflict", based_on=1)
    log.writes("b", "update", None, code=409, reason="Conflict", based_on=1)
    (stale,) = find(log.lines).stale
    assert (stale.step, stale.newest, stale.used_step) == (read, 2, used)
    assert stale.used == "update configmaps: 409 Conflict"


def test_a_write_that_rests_on_the_answer_before_it_did_not_use_the_read():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.read", 1)
    log.writes("b", "update", 2, based_on=1)
    log.writes("b", "update", 3, based_on=2)
    log.hears("b", "informer.read", 3)
    log.writes("b", "patch", 4)
    log.writes("b", "patch", 5)
    assert find(log.lines).stale == []


def test_a_read_of_another_incarnation_is_told_as_such():
    log = Log()
    log.writes("a", "create", 1)
    log.writes("a", "delete", 2)
    log.writes("a", "create", 3, uid="u2")
    log.hears("b", "informer.read", 1, uid="u1")
    (stale,) = find(log.lines).stale
    assert (stale.other, stale.newest, stale.behind) == (True, 3, 1)


def test_a_fresh_read_is_none():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.read", 1)
    log.writes("b", "update", 2)
    log.hears("a", "client.read", 2)
    found = find(log.lines)
    assert (found.reads, found.stale, found.unordered) == (2, [], [])


def test_who_finds_nothing_where_all_have_heard_of_the_deletion_is_right():
    log = Log()
    log.writes("a", "create", 1)
    log.writes("a", "delete", 2, terminating=True)
    early = log.hears("b", "informer.read", None, found=False)
    log.lines[-1] = event(early, "informer.read", OBJ, actor="b", level="trace", found=False)
    log.hears("b", "informer.told", 2, kind="delete")
    late = log.hears("b", "informer.read", None, found=False)
    log.lines[-1] = event(late, "informer.read", OBJ, actor="b", level="trace", found=False)
    assert [each.step for each in find(log.lines).stale] == [early]


def test_two_writes_are_unordered_when_the_second_was_sent_before_news_of_the_first():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.told", 1, kind="add")
    sent = log.sends("b")
    first = log.writes("a", "update", 2)
    log.hears("b", "informer.told", 2, kind="update")  # too late: it was on its way
    second = log.answers(sent, "b", "patch", 3)
    (pair,) = find(log.lines).unordered
    assert pair.to_json() == {
        "obj": OBJ,
        "first": {"step": first, "by": "a", "verb": "update configmaps"},
        "second": {"step": second, "by": "b", "verb": "patch configmaps", "code": 200},
    }


def test_news_of_any_sort_puts_writes_in_order():
    for name in ("informer.told", "informer.read", "client.read"):
        log = Log()
        log.writes("a", "create", 1)
        log.hears("b", name, 1, kind="add")
        log.writes("b", "update", 2)
        log.writes("b", "update", 3)  # its own are in order
        assert find(log.lines).unordered_in_all == 0


def test_the_answer_that_brought_a_version_is_news_as_well():
    log = Log()
    log.writes("a", "create", 1)
    log.hears("b", "informer.read", 1)
    log.writes("b", "update", 2)
    log.hears("a", "informer.read", 2)
    log.writes("a", "update", 3)
    assert find(log.lines).unordered == []


def test_of_very_many_pairs_the_first_are_kept_and_all_are_counted():
    log = Log()
    for number in range(PAIRS + 50):
        log.writes("ab"[number % 2], "patch", number + 1)
    found = find(log.lines).to_json()
    assert len(found["unordered_writes"]) == PAIRS
    assert found["unordered_writes_in_all"] == PAIRS + 49


@pytest.mark.parametrize("seed", [1, 2])
def test_in_a_real_run_every_stale_read_is_of_what_the_server_had_overwritten(
    run_log, other_log_file, seed
):
    run_lines = list(run_log if seed == 1 else RunLog(other_log_file))
    found = find(run_lines)
    assert found.reads == sum(line.event in READS for line in run_lines) > 50
    versions = {
        (line.obj, line.rv): line.step
        for line in run_lines
        if line.event == "apiserver.write" and line.data["code"] < 300 and line.rv
    }
    for each in found.stale:
        newer = [
            at for (obj, rv), at in versions.items() if obj == each.obj and rv > (each.read or 0)
        ]
        assert newer
        assert min(newer) < (each.used_step or each.step)
