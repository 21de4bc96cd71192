"""Objects that a server wrote out can be submitted again."""

from __future__ import annotations

import json

import pytest
import yaml

from actors import strategies
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.inputs.exported import as_manifest, is_exported, manifests_of
from controlplane.scenarios.manifest_run import SCENARIO

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
SHOP = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": TEMPLATE,
        },
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once", "namespace": "shop"},
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
            }
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull", "namespace": "shop"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": '{"auths": {}}'},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
]


def ran(file, **options):
    run = Execution(plan_of(SCENARIO, files=(str(file),), **options), strategies.named("fifo", 0))
    run.execute("bare")
    assert run.result.verdict == "quiescent"
    return run


def names(run):
    found = {}
    for tree in yaml.safe_load_all(run.cluster.dump()):
        key = tree["kind"], tree["metadata"].get("namespace", "")
        found.setdefault(key, []).append(tree["metadata"]["name"])
    return found


@pytest.mark.slow
def test_what_a_run_leaves_runs_again_to_the_same_objects(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump_all(SHOP))
    first = ran(file, nodes=2)
    first.save(tmp_path / "out")
    second = ran(tmp_path / "out" / "objects.yaml")
    before, after = names(first), names(second)
    for kind in ("Deployment", "Job", "Service", "Secret", "ReplicaSet", "ServiceAccount"):
        assert after[kind, "shop"] == before[kind, "shop"], kind
    assert after["Node", ""] == ["node-1", "node-2"]
    assert len(after["Pod", "shop"]) == len(before["Pod", "shop"]) == 4
    assert "bare" in after["Pod", "shop"]
    assert any("left out" in note and "ReplicaSet 1" in note for note in second.plan.given.notes)
    job = second.cluster.objects("/registry/jobs/")[0].tree
    assert job["status"]["conditions"][-1]["type"] in (
        "SuccessCriteriaMet",
        "Complete",
        "Failed",
    ) or (job["status"]["active"] == 1)


@pytest.mark.slow
def test_a_list_of_some_objects_runs_and_its_namespace_is_made(tmp_path):
    """`kubectl get pods,services -n shop -o yaml`: nothing of their owners or their namespace."""
    file = tmp_path / "shop.yaml"
    file.write_text(yaml.safe_dump_all(SHOP))
    first = ran(file, nodes=1)
    wanted = ("Pod", "Service", "Secret")
    items = [
        each
        for each in yaml.safe_load_all(first.cluster.dump())
        if each["metadata"].get("namespace") == "shop" and each["kind"] in wanted
    ]
    got = tmp_path / "got.json"
    got.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    second = ran(got, nodes=1)
    assert sorted(names(second)["Pod", "shop"]) == sorted(names(first)["Pod", "shop"])
    pods = [each.view for each in second.cluster.objects("/registry/pods/")]
    assert {pod.status.phase for pod in pods} <= {"Running", "Succeeded"}
    assert "namespaces made for exported objects: shop" in second.plan.given.notes


@pytest.mark.parametrize(
    ("exported", "manifest"),
    [
        (
            {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}},
            {"apiVersion": "v1", "kind": "Service", "spec": {}},
        ),
        (
            {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
            {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}},
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "spec": {"claimRef": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"}},
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "spec": {"claimRef": {"name": "c", "namespace": "n"}},
            },
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {
                    "volumes": [{"name": "kube-api-access-x7d2f"}, {"name": "data"}],
                    "containers": [
                        {"name": "c", "volumeMounts": [{"name": "kube-api-access-x7d2f"}, {"name": "data"}]}
                    ],
                },
            },
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {
                    "volumes": [{"name": "data"}],
                    "containers": [{"name": "c", "volumeMounts": [{"name": "data"}]}],
                },
            },
        ),
    ],
)  # fmt: skip
def test_what_the_server_sets_is_taken_out(exported, manifest):
    metadata = {"name": "x", "uid": "u", "resourceVersion": "7", "generation": 2}
    assert is_exported({**exported, "metadata": metadata})
    assert as_manifest({**exported, "metadata": metadata, "status": {"a": 1}}) == {
        **manifest,
        "metadata": {"name": "x"},
    }


def test_what_a_controller_owns_is_kept_only_without_its_owner():
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "r",
        "uid": "1",
        "controller": True,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "2", "ownerReferences": [owner]},
    }
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r", "namespace": "n", "uid": "1"},
    }
    found, left = manifests_of([pod, replicas])
    assert [each["kind"] for each in found] == ["ReplicaSet"]
    assert left == {"Pod": 1}
    (alone,), left = manifests_of([pod])
    assert alone["metadata"] == {"name": "p", "namespace": "n"}
    assert not left
