"""Sessions with the operator of the examples: a process of this machine as the container of its emulated pod."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from actors import EventLog
from controlplane.api.container_output import Line
from controlplane.errors import UsageError
from controlplane.operators.description import ProcessRule, read
from controlplane.operators.exploring import Limits, explore
from controlplane.operators.loops.scenario import _output as process_output
from controlplane.operators.loops.session import Conditions, performed
from controlplane.operators.masks import reference_of
from controlplane.operators.oracles import alarms_of
from controlplane.operators.report import as_text, as_tree
from controlplane.scenarios.search import replaying
from controlplane.scenarios.search.loading import from_module

EXAMPLES = Path(__file__).parents[2] / "examples" / "operators"
QUICK = {"settle_s": 0.2}

CRASH = ("kill shelves before answer shelves create secrets default/a-key",)
STALE = (
    "freeze shelves shelves from answer shelves create configmaps default/a-books"
    " as of event shelves MODIFIED shelves default/a where metadata.deletionTimestamp"
    " until answer shelves delete configmaps default/a-books",
    "kill shelves after answer shelves create configmaps default/a-books #2",
)
SKIP = (
    "swallow event shelves MODIFIED shelves default/a where spec.boards=2"
    " until event shelves MODIFIED shelves default/a where spec.boards=1",
)


@pytest.fixture(scope="module")
def clean():
    return read(EXAMPLES / "shelves.yaml")


@pytest.fixture(scope="module")
def broken():
    return read(EXAMPLES / "shelves-broken.yaml")


@pytest.fixture(scope="module")
def calm(clean):
    return performed(clean, Conditions(**QUICK))


@pytest.mark.slow
def test_the_workload_is_performed_and_settles(calm):
    assert [each.problem for each in calm.steps] == [""] * len(calm.steps)
    assert calm.settled
    assert calm.started == 1
    assert calm.clients == ("shelves",)
    assert ("configmaps", "default/a-books") in calm.objects
    writes = [each for each in calm.seen if each.effective and each.what.kind == "answer"]
    assert writes[0].what.verb == "patch"
    assert not calm.exits


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "kind"), [(CRASH, "history"), (STALE, "history"), (SKIP, "workload")]
)
def test_each_mistake_shows_under_its_plan_alone(clean, broken, calm, plan, kind):
    reference = reference_of([calm, calm])
    bad = performed(broken, Conditions(plan, **QUICK))
    assert bad.reached, bad.outcomes
    assert kind in [each.kind for each in alarms_of(bad, reference, [calm])]
    good = performed(clean, Conditions(plan, **QUICK))
    assert alarms_of(good, reference, [calm]) == []


@pytest.mark.slow
def test_a_killed_process_is_a_restart_of_its_container(clean):
    found = performed(clean, Conditions(CRASH, **QUICK))
    assert found.started == 2
    pods = [each for each in found.changes if each.resource == "pods" and each.tree is not None]
    status = pods[-1].tree["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 137


@pytest.mark.slow
def test_the_worlds_side_replays_without_the_operator(clean, tmp_path):
    performed(clean, Conditions(CRASH, folder=str(tmp_path), **QUICK))
    path = tmp_path / "run.rec"
    recording = replaying.load(path)
    plan = replaying.plan_of_recording(
        recording, path, from_module("controlplane.operators.loops.scenario")
    )
    run = replaying.replayed(plan, recording, EventLog())
    run.execute("bare")
    assert run.result.verdict == "stopped"
    assert run.result.trace_hash == recording.trace_hash
    assert run.control.reached


def test_what_a_process_writes_is_the_log_of_its_container():
    lines = [Line(1, "one"), Line(2, "two"), Line(3, "")]
    pod = {"metadata": {"uid": "u"}, "status": {"containerStatuses": [
        {"name": "c", "containerID": "id2", "state": {"running": {}},
         "lastState": {"terminated": {"containerID": "id1"}}}]}}  # fmt: skip
    outputs = {("u", "id1"): lines, ("u", "id2"): [Line(4, "again")]}

    def texts(previous):
        return [each.text for each in process_output(outputs, None, pod, "c", 9, previous).lines]

    assert texts(True) == ["one", "two"]
    assert texts(False) == ["again"]
    assert process_output({}, None, pod, "c", 9, False).lines == ()


@pytest.mark.slow
def test_a_command_that_ends_is_told_and_a_wrong_image_is_refused(clean):
    rule = clean.processes[0]
    ends = evolve(clean, processes=(evolve(rule, command=("sh", "-c", "echo bye; exit 3")),))
    ends = evolve(ends, workload=clean.workload[:1])
    found = performed(ends, Conditions(most_messages=50, **QUICK))
    assert found.exits[0][1] == 3
    assert "bye" in found.outputs[0][1]
    wrong = evolve(clean, processes=(ProcessRule("other:*", rule.command, rule.directory),))
    with pytest.raises(
        UsageError, match=r"no container runs whose image is other.*example.com/shelves:1"
    ):
        performed(wrong, Conditions(**QUICK))


@pytest.mark.slow
def test_a_campaign_reports_what_repeats_and_goes_on(broken, tmp_path):
    few = evolve(broken, settle_s=0.2)
    told = []
    found = explore(
        few,
        Limits(plans=2, repeats=1, pairs=False),
        plans=[CRASH],
        folder=tmp_path,
        tell=told.append,
    )
    assert not found.ok
    assert found.campaign.findings[0].candidate.lines == CRASH
    assert "a-label" in as_text(found)
    assert as_tree(found)["findings"][0]["of"] == 1
    assert (tmp_path / "finding-1.plan").read_text().endswith(f"{CRASH[0]}\n")
    tried = found.campaign.tried
    again = explore(few, Limits(plans=1, pairs=False), folder=tmp_path)
    assert set(tried) < set(again.campaign.tried)
