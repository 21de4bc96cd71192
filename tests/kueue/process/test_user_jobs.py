"""Kinds of jobs that the command line names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from controlplane.errors import UsageError
from controlplane.kueue.process.user_jobs import load
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO
from tests.kueue.process.test_examples import conditions, events

EXAMPLE = Path(__file__).parents[3] / "examples" / "kueue"
FOLDER = EXAMPLE / "jobset"
CLASS = str(FOLDER / "jobset.py")


def executed(*files: Path, **options):
    names = tuple(map(str, files))
    run = Execution(
        plan_of(SCENARIO, files=names, kueue_job=(CLASS,), **{"with": ("kueue",), **options})
    )
    run.execute("bare")
    assert summary_of(run).verdict == "quiescent"
    return run


@pytest.fixture(scope="module")
def example():
    files = FOLDER / "definition.yaml", FOLDER / "jobsets.yaml"
    return executed(*files, own_controller=(str(FOLDER / "controller.py"),))


def test_a_job_waits_for_the_quota_of_all_its_parts_and_gives_it_back(example):
    found = conditions(example.cluster)
    assert set(found) == {"train", "evaluate", "urgent"}
    assert all(each["Finished"]["reason"] == "Succeeded" for each in found.values())
    train, urgent, evaluate = (found[name] for name in ("train", "urgent", "evaluate"))
    assert urgent["Finished"]["lastTransitionTime"] < train["Finished"]["lastTransitionTime"]
    assert evaluate["Admitted"]["lastTransitionTime"] >= train["Finished"]["lastTransitionTime"]
    (queue,) = (
        each.tree for each in example.cluster.objects("/registry/kueue.x-k8s.io/clusterqueues/")
    )
    (flavor,) = queue["status"]["flavorsReservation"]
    assert flavor["resources"] == [{"name": "cpu", "total": "0", "borrowed": "0"}]


def test_a_preempted_job_loses_its_pods_and_comes_back(example):
    assert [name.rsplit("-", 1)[0] for name, _ in events(example.cluster, "Preempted")] == [
        "jobset-train"
    ]
    told = Counter(
        reason
        for reason in ("Started", "Stopped")
        for name, _ in events(example.cluster, reason)
        if name == "train"
    )
    assert told["Started"] and told["Stopped"]
    jobs = {obj.name: obj.tree for obj in example.cluster.objects("/registry/jobs/")}
    assert len(jobs) == 7
    assert all(each["spec"]["suspend"] is False for each in jobs.values())


def test_a_kind_that_is_not_defined_holds_nothing_up():
    found = conditions(executed(EXAMPLE / "partial.yaml").cluster)
    assert all(each["Finished"]["status"] == "True" for each in found.values())


def test_a_module_without_a_class_is_refused(tmp_path):
    file = tmp_path / "empty.py"
    file.write_text("from controlplane.kueue.jobs import GenericJob\n")
    with pytest.raises(UsageError, match=f"^{file}: defines no class derived from GenericJob$"):
        load([str(file)])
    with pytest.raises(UsageError, match="no such file"):
        load([str(tmp_path / "absent.py")])


def test_a_kind_is_registered_once():
    with pytest.raises(UsageError, match="Kueue has an integration of a kind JobSet already"):
        load([CLASS, CLASS])
