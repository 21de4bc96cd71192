"""Kueue asks the cluster autoscaler for nodes before it admits a Workload."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from controlplane.api.object import Object
from controlplane.controllers.common.controller import Caches
from controlplane.gates import FixGates
from controlplane.kueue.gates import Gates
from controlplane.kueue.process.controller import Kueue, kueue_of
from controlplane.kueue.process.kinds import KINDS
from controlplane.kueue.process.provisioning import (
    CHECKS_QUEUE,
    WATCHED,
    WORKLOADS_QUEUE,
    Provisioning,
)
from controlplane.kueue.process.reader import CacheReader
from controlplane.kueue.process.settings import Settings
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO
from tests.kueue.objects import START
from tests.kueue.process.test_examples import FOLDER, conditions, events
from tests.kueue.process.test_start import Keys
from tests.kueue.provisioning.objects import check, config, request, reserved, state

GROUPS = FOLDER / "provisioning-groups.yaml"
EXAMPLE = FOLDER / "provisioning.yaml"
REQUESTS = "/registry/autoscaling.x-k8s.io/provisioningrequests/"


def planned(file: Path, groups: Path = GROUPS, systems=("kueue", "cluster-autoscaler")):
    options = {"files": (str(file),), "with": systems, "node_groups": str(groups)}
    return plan_of(SCENARIO, **options)


def executed(file: Path, **given: Any):
    run = Execution(planned(file, **given))
    run.execute("bare")
    assert summary_of(run).verdict == "quiescent"
    return run.cluster


def changed(tmp_path: Path, **specs: Any) -> Path:
    """The example with its job `huge` alone, and with other fields of the configuration `once`."""
    kept = []
    for tree in yaml.safe_load_all(EXAMPLE.read_text()):
        if tree["kind"] == "Job" and tree["metadata"]["name"] != "huge":
            continue
        if tree["kind"] == "ProvisioningRequestConfig" and tree["metadata"]["name"] == "once":
            tree["spec"] |= specs
        kept.append(tree)
    file = tmp_path / "changed.yaml"
    file.write_text(yaml.safe_dump_all(kept))
    return file


def test_jobs_wait_for_quota_then_for_nodes_and_run():
    cluster = executed(EXAMPLE)
    found = conditions(cluster)
    train, evaluate, huge = (found[name] for name in ("train", "evaluate", "huge"))
    assert train["Finished"]["status"] == evaluate["Finished"]["status"] == "True"
    # quota comes at once, admission with the answer of the autoscaler's next loop
    assert train["QuotaReserved"]["lastTransitionTime"] < train["Admitted"]["lastTransitionTime"]
    assert evaluate["QuotaReserved"]["lastTransitionTime"] > train["Finished"]["lastTransitionTime"]
    pods = [obj.tree for obj in cluster.objects("/registry/pods/")]
    assert Counter(each["spec"]["nodeName"].split("-")[0] for each in pods) == {"pool": 5}
    consumed = {
        each["metadata"]["annotations"]["autoscaling.x-k8s.io/consume-provisioning-request"]
        for each in pods
    }
    names = {
        obj.metadata["ownerReferences"][0]["name"]: obj.name
        for obj in cluster.objects("/registry/kueue.x-k8s.io/workloads/")
    }
    assert consumed == {f"{names[job]}-capacity-1" for job in ("train", "evaluate")}
    assert huge["Evicted"]["reason"] == "DeactivatedDueToAdmissionCheck"
    # requests of what is over go, and their templates with them
    assert cluster.objects(REQUESTS) == []
    assert cluster.objects("/registry/podtemplates/") == []


def test_a_request_that_fails_is_made_again_after_the_backoff(tmp_path):
    retries = {"backoffLimitCount": 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    cluster = executed(changed(tmp_path, retryStrategy=retries))
    (name,) = (obj.name for obj in cluster.objects("/registry/kueue.x-k8s.io/workloads/"))
    made = [text for _, text in events(cluster, "ProvisioningRequestCreated")]
    assert made == [f'Created ProvisioningRequest: "{name}-room-{number}"' for number in (1, 2)]
    texts = [text for _, text in events(cluster, "AdmissionCheckUpdated")]
    failure = "CA could not find requested capacity"
    assert texts == [
        "Admission check room updated state from Pending to Retry"
        f" with message: Retrying after failure: {failure}",
        f"Admission check room updated state from Pending to Rejected with message: {failure}",
    ]
    (evicted,) = events(cluster, "EvictedDueToAdmissionCheck")
    assert failure in evicted[1]


@pytest.mark.parametrize(
    "systems", [("kueue", "cluster-autoscaler"), ("cluster-autoscaler", "kueue")]
)
def test_the_check_is_there_when_the_autoscaler_serves_requests(systems, tmp_path):
    def kueue(groups: Path) -> Any:
        found = planned(EXAMPLE, groups, systems).configure().own_controllers
        return next(each for each in found if issubclass(each, Kueue))

    plain = tmp_path / "groups.yaml"
    content = yaml.safe_load(GROUPS.read_text())
    del content["flags"]["enable-provisioning-requests"]
    plain.write_text(yaml.safe_dump(content))
    assert kueue(GROUPS).provisioning
    assert not kueue(plain).provisioning


@pytest.mark.parametrize("provisioning", [True, False])
def test_other_worlds_have_no_informer_and_no_queue_of_it(provisioning):
    queues: dict[str, Keys] = {}
    host: Any = SimpleNamespace(
        fixes=FixGates(), now=START, queue=lambda name: queues.setdefault(name, Keys())
    )
    caches = Caches()
    made = kueue_of(Settings(), provisioning=provisioning)(host, caches)
    assert [KINDS[kind] in caches.stores for kind in WATCHED] == [provisioning] * 3
    known = {work.queue for work in made.work()}
    assert (known >= {WORKLOADS_QUEUE, CHECKS_QUEUE}) == provisioning
    assert (WORKLOADS_QUEUE in queues) == provisioning


class Wired:
    """The queues of the check, and what changes put into them."""

    def __init__(self, **objects: Any) -> None:
        self.queues: dict[str, Keys] = {}
        host: Any = SimpleNamespace(
            now=START, queue=lambda name: self.queues.setdefault(name, Keys())
        )
        caches = Caches()
        kinds = ("Workload", "AdmissionCheck", *WATCHED)
        reader = CacheReader(caches, kinds)
        for kind, trees in objects.items():
            for tree in trees:
                found: Any = Object(tree)
                caches.stores[KINDS[kind]].put(found)
        self._changes = Provisioning(host, reader, Gates(), 1, lambda *_: iter(())).changes()

    def keys(self, kind: str, old: Any, new: Any) -> tuple[list[str], list[str]]:
        """The keys of Workloads and of AdmissionChecks after a change."""
        self._changes[KINDS[kind]](old, new)
        found = [list(self.queues[name].keys) for name in (WORKLOADS_QUEUE, CHECKS_QUEUE)]
        for queue in self.queues.values():
            queue.keys.clear()
        return found[0], found[1]


def test_changes_wake_the_workloads_that_they_concern():
    wired = Wired(Workload=[reserved(state())], AdmissionCheck=[check(), check("other", "other")])
    work = ["default/work"]
    assert wired.keys("Workload", None, reserved()) == (work, [])
    assert wired.keys("ProvisioningRequest", None, request()) == (work, [])
    owned = request()
    owned["metadata"]["ownerReferences"][0]["kind"] = "Job"
    assert wired.keys("ProvisioningRequest", owned, None) == ([], [])
    assert wired.keys("AdmissionCheck", None, check()) == (work, ["check"])
    assert wired.keys("AdmissionCheck", None, check("other", "other")) == ([], ["other"])


def test_a_configuration_wakes_its_checks_when_other_requests_may_follow():
    wired = Wired(Workload=[reserved(state())], AdmissionCheck=[check(), check("other", "other")])
    both = (["default/work"], ["check"])
    nothing: tuple[list[str], list[str]] = ([], [])
    old = config(managedResources=["a", "b"])
    assert wired.keys("ProvisioningRequestConfig", None, old) == both
    assert wired.keys("ProvisioningRequestConfig", old, None) == both
    assert wired.keys("ProvisioningRequestConfig", None, config("unused")) == nothing
    assert (
        wired.keys("ProvisioningRequestConfig", old, config(limit=9, managedResources=["b", "a"]))
        == nothing
    )
    for new in (config(), config(managedResources=["a", "b"], parameters={"a": "b"})):
        assert wired.keys("ProvisioningRequestConfig", old, new) == both
