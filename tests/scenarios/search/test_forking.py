"""A fork repeats a recording up to a step, and is a run of its own from there on."""

from __future__ import annotations

import pytest

from actors import Fifo, RandomWalk
from controlplane.errors import UsageError
from controlplane.scenarios import manifest_run as files
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.inputs import reading
from controlplane.scenarios.search import forking, replaying

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "web.yaml").write_text(WEB)
    return plan_of(files.SCENARIO, files=(str(tmp_path / "web.yaml"),), nodes=1)


@pytest.fixture
def first(plan):
    run = Execution(plan, RandomWalk(4))
    run.execute("bare")
    return run


def submissions(tmp_path, text):
    path = tmp_path / "added.yaml"
    path.write_text(text)
    return reading.load([str(path)]).submissions


def executed(fork):
    fork.run.execute("bare")
    return fork.run


def until(run, step):
    """What happened up to a step, but for the end of the run."""
    return [event for event in run.world.log if event.step <= step and event.event != "verdict"]


def test_up_to_the_step_all_is_the_same_and_from_there_on_it_is_not(plan, first):
    step = 400
    fork = executed(forking.forked(plan, first.recording(), step, RandomWalk(9)))
    assert until(fork, step) == until(first, step)
    assert fork.result.trace_hash != first.result.trace_hash
    assert fork.result.ok


def test_a_fork_at_the_end_is_the_recorded_run(plan, first):
    recording = first.recording()
    fork = executed(forking.forked(plan, recording, recording.steps, Fifo()))
    assert fork.result.trace_hash == recording.trace_hash


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 400, None])
def test_added_objects_are_applied_after_the_step_and_the_fork_replays(plan, first, tmp_path, step):
    recording = first.recording()
    step = recording.steps if step is None else step
    add = submissions(tmp_path, WEB.replace("replicas: 2", "replicas: 3").replace("web", "more"))
    fork = forking.forked(plan, recording, step, Fifo(), add=add)
    run = executed(fork)
    assert [each.code for each in fork.applied] == [201]
    assert until(run, step) == until(first, step)
    pods = run.cluster.objects("/registry/pods/")
    assert sum(pod.tree["metadata"]["name"].startswith("more-") for pod in pods) == 3
    again = replaying.replayed(plan, run.recording())
    assert again.execute("bare").trace_hash == run.result.trace_hash


def test_what_is_there_already_is_changed(plan, first, tmp_path):
    recording = first.recording()
    add = submissions(tmp_path, WEB.replace("replicas: 2", "replicas: 4"))
    fork = forking.forked(plan, recording, recording.steps, Fifo(), add=add)
    run = executed(fork)
    assert [each.code for each in fork.applied] == [200]
    assert len(list(run.cluster.objects("/registry/pods/"))) == 4


def test_what_the_server_refuses_is_told_with_its_place(plan, first, tmp_path):
    recording = first.recording()
    add = submissions(tmp_path, WEB.replace("replicas: 2", "replicas: -2").replace("web", "bad"))
    fork = forking.forked(plan, recording, 400, Fifo(), add=add)
    executed(fork)
    assert "added.yaml:2: Deployment" in str(fork.applied[0].refusal)
    assert "must be greater than or equal to 0" in str(fork.applied[0].refusal)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apiVersion: v1\nkind: Thing\nmetadata: {name: a}", "no kind 'Thing'"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a}",
            "metadata.name: expected a name",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_anything_runs(
    plan, first, tmp_path, text, said
):
    add = submissions(tmp_path, text)
    with pytest.raises(UsageError, match=said):
        forking.forked(plan, first.recording(), 400, Fifo(), add=add)


def test_steps_that_there_are_not_are_refused(plan, first):
    with pytest.raises(UsageError, match=r"step 999999: the recording has steps 1 to \d+"):
        forking.forked(plan, first.recording(), 999_999, Fifo())
