"""What the log says about an object, told in order."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.logs.reading import Line, RunLog, find
from controlplane.logs.subjects import Subject, subject, unknown
from controlplane.logs.why import folded, story, with_preemptors, with_victims

POD = Subject("pod", "default", "web")


def line(step, event, obj="Pod/default/web", uid="u1", **data):
    return Line(step, step / 2, "scheduler", "main", event, "r", "info", obj, uid, None, (), data)


def failed(step, attempt, *refused, uid="u1"):
    words = [
        {"plugin": plugin, "message": message, "count": count, "nodes": nodes}
        for plugin, message, count, nodes in refused
    ]
    data = {"attempt": attempt, "message": "m", "reason": "Unschedulable", "outcome": "requeue"}
    return line(step, "scheduler.failed", uid=uid, refused=words, **data)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("pod/default/web", POD),
        ("pods/web", POD),
        ("po/web", POD),
        ("Pod/web", POD),
        ("no/n1", Subject("node", "", "n1")),
        ("node/n1", Subject("node", "", "n1")),
        ("ingress/shop/front", Subject("ingress", "shop", "front")),
        ("cm/settings", Subject("configmap", "default", "settings")),
        ("quota/shop/all", Subject("resourcequota", "shop", "all")),
        ("clusterrole/view", Subject("clusterrole", "", "view")),
        ("ingresses/shop/front", Subject("ingress", "shop", "front")),
        ("networkpolicies/shop/front", Subject("networkpolicy", "shop", "front")),
        ("priorityclasses/high", Subject("priorityclass", "", "high")),
    ],
)
def test_objects_are_named_as_kubectl_names_them(text, wanted):
    assert subject(text) == wanted


@pytest.mark.parametrize("text", ["web", "pod/", "pod/a/b/c", ""])
def test_a_malformed_name_is_refused_in_one_line(text):
    with pytest.raises(UsageError, match="expected KIND/NAMESPACE/NAME"):
        subject(text)


def test_every_attempt_says_which_plugin_refused_which_nodes():
    told = story(
        [
            line(1, "apiserver.write", verb="create pods", by="user", code=201),
            failed(2, 1, ("TaintToleration", "tainted", 2, ["n1", "n2"])),
            failed(
                3, 2, ("NodeResourcesFit", "Insufficient cpu", 5000, [f"n{i}" for i in range(16)])
            ),
        ],
        POD,
    )
    assert [entry.what for entry in told.entries] == [
        "created by user",
        "attempt 1 failed (Unschedulable), requeue",
        "attempt 2 failed (Unschedulable), requeue",
    ]
    assert told.entries[1].more == ["TaintToleration refused 2 nodes (tainted): n1, n2"]
    assert told.entries[2].more == [
        "NodeResourcesFit refused 5,000 nodes (Insufficient cpu): n0, n1, n2, n3, n4, n5"
        " and 4,994 more"
    ]
    assert told.ending == (
        "pending after 2 attempts: NodeResourcesFit refused 5,000 nodes (Insufficient cpu)"
    )


def test_the_chosen_node_comes_with_its_scores():
    scores = {"n1": {"Fit": 40, "Spread": 0}, "n2": {"Fit": 60, "Spread": 10}}
    told = story(
        [
            line(
                4, "scheduler.assumed", attempt=1, node="n2", evaluated=3, feasible=2, scores=scores
            )
        ],
        POD,
    )
    assert told.ending == "on n2"
    assert told.entries[0].more == ["n2 scored 70 (Fit 60, Spread 10)", "n1 scored 40 (Fit 40)"]


def test_a_pod_recreated_under_the_same_name_is_told_apart():
    told = story([failed(1, 1), failed(2, 1, uid="u2")], POD)
    assert "a new incarnation, uid u2" in told.entries[1].more


def test_other_objects_play_no_part():
    lines = [
        line(1, "kubelet.admitted", obj="Pod/default/web-2"),
        line(2, "kubelet.admitted", obj="Pod/other/web"),
        line(3, "apiserver.write", obj="pods/default/web", verb="create pods/binding", code=201),
    ]
    assert [entry.what for entry in story(lines, POD).entries] == ["bound"]


def test_an_object_that_went_with_its_last_deletion_was_deleted():
    asked = line(
        1,
        "apiserver.write",
        verb="delete pods",
        by="user",
        code=200,
        phase="Running",
        terminating=True,
    )
    last = line(
        2,
        "apiserver.write",
        verb="delete pods",
        by="node-1",
        code=200,
        phase="Failed",
        terminating=True,
    )
    gone = line(2, "apiserver.removed")
    assert story([asked], POD).ending == "terminating: deletion was asked for by user"
    told = story([asked, last, gone], POD)
    assert told.ending == "deleted by node-1"
    assert told.entries[-1].what.endswith(", and it is gone")
    patched = line(2, "apiserver.write", verb="patch pods", by="user", code=200)
    assert (
        story([asked, patched, gone], POD).ending == "gone: what had kept it was taken away by user"
    )


def test_an_object_the_log_does_not_know_is_an_error_that_names_near_ones():
    assert story([], POD) is None
    known = [line(1, "e", obj="Pod/default/web-1"), line(2, "e", obj="Node/other")]
    said = "pod/default/web: the log says nothing about it; did you mean Pod/default/web-1?"
    assert str(unknown(POD, known)) == said


def test_a_line_that_is_no_event_is_named(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1}\n')
    with pytest.raises(UsageError, match="line 1: expected an event"):
        RunLog(find(tmp_path))


def test_repeated_failed_attempts_of_one_result_are_folded():
    fit = ("NodeResourcesFit", "Insufficient cpu", 2, ["n1", "n2"])
    taint = ("TaintToleration", "untolerated taint", 2, ["n1", "n2"])
    lines = [failed(10 * n, n, fit) for n in range(1, 42)]
    lines += [failed(500, 42, taint), failed(510, 43, fit), failed(520, 44, fit)]
    told = [(each.what, each.step) for each in folded(story(lines, POD).entries)]
    again = "failed (Unschedulable), requeue"
    assert told == [
        (f"attempt 1 {again}", 10),
        ("attempts 2 to 41: the same, every 5 s", 410),
        (f"attempt 42 {again}", 500),
        (f"attempt 43 {again}", 510),
        (f"attempt 44 {again}", 520),
    ]


def test_what_comes_between_two_failed_attempts_is_not_folded_away():
    fit = ("NodeResourcesFit", "Insufficient cpu", 1, ["n1"])
    lines = [
        failed(2, 1, fit),
        failed(6, 2, fit),
        line(8, "other"),
        failed(9, 3, fit),
        failed(12, 4, fit),
        failed(20, 5, fit),
    ]
    told = [each.what for each in folded(story(lines, POD).entries)]
    assert told[2:] == [
        "other",
        "attempt 3 failed (Unschedulable), requeue",
        "attempts 4 to 5: the same, every 1.5 to 4 s",
    ]


JOB = Subject("job", "default", "train")


def job(step, **data):
    return line(step, "apiserver.write", "Job/default/train", verb="patch jobs", code=200, **data)


def workload(step, state):
    name, owner = "Workload/default/job-train-1", "Job/default/train"
    data = {"verb": "patch workloads/status", "code": 200, "state": state, "owner": owner}
    return line(step, "apiserver.write", name, "u2", **data)


def test_a_job_is_told_with_its_workload():
    lines = [
        job(1, state="suspended"),
        workload(2, "pending (WaitingForQuota): no quota"),
        job(3, state="suspended"),
        workload(4, "admitted in queue"),
        job(5),
        job(6),
    ]
    found = story(lines, JOB)
    assert [entry.what for entry in found.entries] == [
        "patched: suspended",
        "its Workload job-train-1 patched (status): pending (WaitingForQuota): no quota",
        "patched: suspended",
        "its Workload job-train-1 patched (status): admitted in queue",
        "patched: resumed",
        "patched",
    ]
    assert found.ending == "its Workload is admitted in queue"
    assert story(lines[:3], JOB).ending == "its Workload is pending (WaitingForQuota): no quota"


def test_a_preemptor_is_named_where_the_log_knows_it():
    text = "Preempted to accommodate a workload (UID: a, JobUID: b) due to prioritization"
    names = {"a": "Workload/default/w", "b": "Job/default/j"}
    named = "Preempted to accommodate Workload/default/w of Job/default/j due to prioritization"
    assert with_preemptors(text, lambda uid: names.get(uid, "")) == named
    assert with_preemptors(text, lambda uid: "") == text


def test_the_victims_of_a_job_are_told():
    state = "evicted (Preempted): Preempted to accommodate a workload (UID: u2, JobUID: u1) due"
    data = {"code": 200, "verb": "patch workloads/status", "state": state, "owner": "Job/default/x"}
    victim = [
        line(step, "apiserver.write", "Workload/default/job-x", "u3", **data) for step in (3, 5)
    ]
    found = story([workload(2, "pending (Waiting): no quota"), workload(4, "admitted in q")], JOB)
    entries = with_victims(found.entries, lambda text: victim if text == "(UID: u2, " else [])
    assert [entry.step for entry in entries] == [2, 3, 4]
    assert entries[1].what == "Workload/default/job-x of Job/default/x evicted for it"


def test_rules_that_taint_devices_are_named_for_a_pod_that_went_elsewhere_and_for_one_that_waits():
    kept = "taint broken:NoSchedule of DeviceTaintRule maintenance keeps it off gpu/n1/a"
    asked = {"claim": "default/c", "request": "r", "class": "gpu", "wanted": "1"}
    counts = {"class": 1, "selected": 1, "free": 1}
    waits = {**asked, "devices": counts, "taint_rules": [kept]}
    told = story(
        [
            line(1, "apiserver.write", verb="create pods", by="user", code=201),
            line(2, "scheduler.failed", attempt=1, message="m", reason="Unschedulable",
                 outcome="requeue", refused=[], claims=[waits]),
            line(3, "scheduler.assumed", node="n2", attempt=2, evaluated=2, feasible=1,
                 taint_rules=[f"claim default/c, request r: {kept}"]),
        ],
        POD,
    )  # fmt: skip
    assert told is not None
    _, refused, chosen = told.entries
    assert any(each.endswith(f"1 of these are free; {kept}") for each in refused.more)
    assert list(chosen.more) == [f"claim default/c, request r: {kept}"]
