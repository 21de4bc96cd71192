"""What can never succeed is tried again for ever, and yet the run ends."""

from __future__ import annotations

import pytest

from controlplane.client.resources import (
    DAEMON_SETS,
    JOBS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Resource,
)
from tests.controllers.worlds import Small, template, workload

LABELS = {"app": "web"}
SELECTING = {"selector": {"matchLabels": LABELS}, "template": template(LABELS)}
NO_PODS = workload(RESOURCE_QUOTAS, "ResourceQuota", "none", {"hard": {"pods": "0"}})
WORKLOADS = {
    "ReplicaSet": (REPLICA_SETS, {**SELECTING, "replicas": 1}, "replicaset"),
    "StatefulSet": (STATEFUL_SETS, {**SELECTING, "serviceName": "web"}, "statefulset"),
    "DaemonSet": (DAEMON_SETS, SELECTING, "daemonset"),
    "Job": (JOBS, {"template": template(LABELS, policy="Never")}, "job"),
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_pods_that_cannot_be_created_do_not_keep_a_run_from_settling(kind):
    resource, spec, controller = WORKLOADS[kind]
    steps = (NO_PODS, 2, workload(resource, kind, "web", spec))
    small = Small(("resourcequota", controller), *steps, heartbeats=False).run()
    assert not small.objects("pods")
    assert "FailedCreate" in small.reasons(kind)


def test_they_are_created_once_they_may_be():
    async def lift(client, _ctx):
        patch = {"spec": {"hard": {"pods": "5"}}}
        await client.patch(RESOURCE_QUOTAS, "default", "none", patch)

    resource, spec, controller = WORKLOADS["ReplicaSet"]
    steps = (NO_PODS, 2, workload(resource, "ReplicaSet", "web", spec), 1500, lift, 1100)
    small = Small(("resourcequota", controller), *steps, heartbeats=False).run()
    assert [obj.view.status.phase for obj in small.objects("pods")] == ["Running"]


def test_owners_of_a_kind_that_is_not_served_do_not_either():
    owner = {"apiVersion": "nowhere.io/v1", "kind": "Thing", "name": "gone", "uid": "1"}
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "orphan", "namespace": "default", "ownerReferences": [owner]},
    }
    small = Small(("garbage-collector",), (Resource("", "v1", "configmaps"), config_map)).run()
    assert [obj.name for obj in small.objects("configmaps")] == ["orphan"]
