"""Static pods: run from files of the node, and shown by mirror pods."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.worlds import nodes_with_static_pods
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

PODS = "/registry/pods/"
NODE = "node-1"


def manifest(image="etcd:1", uid="", **spec) -> dict:
    metadata = {"name": "etcd", "namespace": "kube-system"}
    if uid:
        metadata["uid"] = uid
    container = {"name": "main", "image": image}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def run(workload, *, strategy="fifo", seed=0, manifests=None, **options):
    files = {"etcd.yaml": manifest()} if manifests is None else manifests
    build = nodes_with_static_pods(files)
    scenario = Scenario("static", workload=workload, build=build)
    done = Campaign(plan_of(scenario, nodes=1, **options), strategy).under(seed)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def mirrors(run):
    return [obj.view for obj in run.objects(PODS) if obj.name == "etcd-node-1"]


def running(run) -> list[str]:
    """The uids of the pods whose containers run on the node."""
    return [uid for uid, each in run.cluster.machines[NODE].sandboxes.items() if each.running()]


def test_a_static_pod_runs_and_the_api_server_shows_it() -> None:
    async def workload(user) -> None:
        await user.sleep(30)

    done = run(workload)
    (mirror,) = mirrors(done)
    (uid,) = running(done)
    notes = mirror.annotations
    assert notes["kubernetes.io/config.hash"] == notes["kubernetes.io/config.mirror"] == uid
    assert notes["kubernetes.io/config.source"] == "file"
    assert notes["kubernetes.io/config.seen"].endswith("Z")
    assert mirror.uid != uid
    assert len(uid) == 32
    assert mirror.spec.node_name == NODE
    assert mirror.status.phase == "Running"
    (owner,) = mirror.metadata.owner_references
    (node,) = done.objects("/registry/minions/")
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", NODE, node.uid, True)
    tolerated = [(each.operator, each.effect) for each in mirror.spec.tolerations]
    assert ("Exists", "NoExecute") in tolerated


def test_a_mirror_that_is_deleted_comes_back_and_the_pod_runs_on() -> None:
    seen = []

    async def workload(user) -> None:
        await user.sleep(30)
        seen.append((mirrors(user.run)[0].uid, running(user.run)))
        await user.delete("Pod", "etcd-node-1", "kube-system")
        await user.sleep(30)

    done = run(workload)
    (mirror,) = mirrors(done)
    assert mirror.uid != seen[0][0]
    assert running(done) == seen[0][1]
    assert mirror.status.phase == "Running"


def test_a_mirror_deleted_by_force_comes_back_with_the_next_regular_sync() -> None:
    seen = []

    async def workload(user) -> None:
        await user.sleep(30)
        await user.delete("Pod", "etcd-node-1", "kube-system", grace_period_seconds=0)
        await user.sleep(20)
        seen.append(mirrors(user.run))
        await user.sleep(90)

    done = run(workload)
    assert seen == [[]]
    assert mirrors(done)[0].status.phase == "Running"


def test_a_file_that_is_removed_takes_pod_and_mirror_with_it() -> None:
    async def workload(user) -> None:
        await user.sleep(30)
        await user.write_manifest(NODE, "etcd.yaml", None)
        await user.sleep(30)

    done = run(workload)
    assert mirrors(done) == []
    assert running(done) == []


def test_a_file_that_changes_is_another_pod_which_starts_when_the_old_one_is_gone() -> None:
    seen = []

    async def workload(user) -> None:
        await user.sleep(30)
        (old,) = running(user.run)
        await user.write_manifest(NODE, "etcd.yaml", manifest("etcd:2"))
        for _ in range(60):
            await user.sleep(1)
            seen.append(running(user.run))
        assert old not in running(user.run)

    done = run(workload)
    assert all(len(each) <= 1 for each in seen)
    (uid,) = running(done)
    (mirror,) = mirrors(done)
    assert mirror.annotations["kubernetes.io/config.hash"] == uid
    assert mirror.spec.containers[0].image == "etcd:2"
    assert mirror.status.phase == "Running"


@pytest.mark.parametrize("seed", range(8))
def test_files_win_whatever_the_order_and_whoever_crashes(seed) -> None:
    async def workload(user) -> None:
        for number in range(4):
            await user.sleep(user.choose(12, "pause"))
            gone = user.choose(3, "what") == 2
            tree = None if gone else manifest(f"etcd:{user.choose(3, 'image')}")
            await user.write_manifest(NODE, "etcd.yaml", tree)
            if number == 1:
                user.crash(NODE)
                await user.write_manifest(NODE, "etcd.yaml", manifest("etcd:9"))
                user.restart(NODE)
        await user.write_manifest(NODE, "etcd.yaml", manifest("etcd:last"))
        await user.sleep(200)

    done = run(workload, strategy="random-walk", seed=seed)
    (uid,) = running(done)
    (mirror,) = mirrors(done)
    assert mirror.annotations["kubernetes.io/config.hash"] == uid
    assert mirror.spec.containers[0].image == "etcd:last"
    assert mirror.status.phase == "Running"
    assert mirror.status.container_statuses[0].ready


def test_a_pod_that_is_put_back_under_its_uid_is_started_again() -> None:
    fixed = manifest(uid="5f8a6a9e-0000-4000-8000-000000000001")

    async def workload(user) -> None:
        await user.sleep(30)
        await user.write_manifest(NODE, "etcd.yaml", None)
        await user.sleep(1)
        await user.write_manifest(NODE, "etcd.yaml", fixed)
        await user.sleep(60)

    files = {"etcd.yaml": fixed}
    assert running(run(workload, manifests=files)) == [fixed["metadata"]["uid"]]
    assert running(run(workload, manifests=files, without_fix=("104847",))) == []


def test_a_mirror_that_the_api_server_refuses_does_not_keep_the_pod_from_running() -> None:
    lost = manifest()
    lost["metadata"]["namespace"] = "nowhere"

    async def workload(user) -> None:
        await user.sleep(30)

    done = run(workload, manifests={"etcd.yaml": lost})
    assert len(running(done)) == 1
    assert mirrors(done) == []


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {"apiVersion": "v1", "kind": "Service"},
            "f.yaml: a static pod is a v1 Pod, not v1 Service",
        ),
        (manifest(serviceAccountName="x"), "f.yaml: static pods may not reference serviceaccounts"),
        (
            manifest(volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
            "f.yaml: static pods may not reference secrets",
        ),
    ],
)
def test_what_no_kubelet_would_take_is_refused(tree, message) -> None:
    from controlplane.scenarios.inputs.static_pods import manifest as check

    with pytest.raises(UsageError) as refused:
        check(tree, "f.yaml")
    assert str(refused.value) == message
