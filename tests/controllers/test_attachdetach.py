"""Attaching: VolumeAttachments for scheduled pods, one node at a time, and never away under a pod that uses it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from actors import RandomWalk
from controlplane.api.csi import attachment_name, driver_and_handle, unique_name
from controlplane.client.resources import CLAIMS, CSI_DRIVERS, NODES, PODS, STORAGE_CLASSES
from controlplane.controllers.loops.storage import CsiDriver, Storage
from controlplane.controllers.storage.csi.faults import Fault
from controlplane.controllers.storage.csi.hostpath import DriverOptions
from controlplane.scenarios.churns import storage_world as storage
from tests.controllers.worlds import Small

DRIVER = "hostpath.csi.k8s.io"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": DRIVER,
    "volumeBindingMode": "WaitForFirstConsumer",
}


def claim(mode: str = "ReadWriteOnce") -> Any:
    spec = {
        "storageClassName": "fast",
        "accessModes": [mode],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": "data", "namespace": "default"}
    return CLAIMS, {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def pod(name: str, node: str) -> Any:
    mount = {"name": "disk", "mountPath": "/data"}
    return PODS, {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "app:1", "volumeMounts": [mount]}],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "data"}}],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
        },
    }


def remove(name: str) -> Any:
    async def step(client: Any, _ctx: Any) -> None:
        await client.delete(PODS, "default", name)

    return step


def world(*steps: Any, faults: tuple[Fault, ...] = (), **more: Any) -> Small:
    driver = CsiDriver(DriverOptions(attaches=True), faults=faults, attach_required=True)
    mode = more.pop("mode", "ReadWriteOnce")
    return Small(
        ("*",),
        (STORAGE_CLASSES, CLASS),
        claim(mode),
        *steps,
        store=storage.store(),
        storage=Storage([driver]),
        **more,
    )


def disk(small: Small) -> Any:
    return small.cluster.csi_drivers[DRIVER].driver


def calls(small: Small) -> list[str]:
    return [
        event.data["method"]
        for event in small.log
        if event.event == "csi.call" and event.data["code"] == "OK"
    ]


def messages(small: Small, reason: str) -> list[str]:
    return [each.tree["message"] for each in small.objects("events") if each.view.reason == reason]


def written(small: Small, kind: str, verb: str) -> list[int]:
    return [
        event.step
        for event in small.log
        if event.event == "apiserver.write"
        and str(event.obj).startswith(kind)
        and event.data["verb"].startswith(verb)
    ]


def test_names_are_those_of_upstream():
    assert unique_name("a.b", "v") == "kubernetes.io/csi/a.b^v"
    assert driver_and_handle(unique_name("a.b", "v^w")) == ("a.b", "v^w")
    name = attachment_name("vol", "drv", "node")
    assert name == f"csi-{sha256(b'voldrvnode').hexdigest()}"


def test_a_volume_is_attached_before_it_is_mounted_and_unmounted_before_the_pod_is_gone():
    small = world(pod("web", "node-1"), 30, remove("web"), 60).run()
    (volume,) = disk(small).volumes
    order = list(dict.fromkeys(calls(small)))
    assert [each for each in order if "Info" not in each] == [
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
    ]
    unpublished = [
        event.step
        for event in small.log
        if event.event == "csi.call" and event.data["method"] == "NodeUnpublishVolume"
    ]
    assert unpublished[0] < written(small, "Pod/default/web", "delete")[-1]
    assert small.objects("volumeattachments") == []
    node = next(each for each in small.objects("minions") if each.name == "node-1")
    assert not node.tree["status"].get("volumesInUse")
    assert not node.tree["status"].get("volumesAttached")
    assert disk(small).attached[volume] == {}
    volumes = small.objects("persistentvolumes")
    assert "external-attacher/hostpath.csi.k8s.io" in volumes[0].tree["metadata"]["finalizers"]


def test_the_attachment_and_the_node_say_what_upstreams_say():
    small = world(pod("web", "node-1"), 30).run()
    (attachment,) = small.objects("volumeattachments")
    (volume,) = disk(small).volumes
    assert attachment.name == attachment_name(volume, DRIVER, "node-1")
    metadata = attachment.tree["metadata"]
    assert metadata["finalizers"] == [f"external-attacher/{DRIVER}"]
    assert metadata["annotations"] == {"csi.alpha.kubernetes.io/node-id": "node-1"}
    assert attachment.tree["spec"]["attacher"] == DRIVER
    assert attachment.tree["status"] == {"attached": True}
    node = next(each for each in small.objects("minions") if each.name == "node-1")
    name = unique_name(DRIVER, volume)
    assert node.tree["status"]["volumesInUse"] == [name]
    assert node.tree["status"]["volumesAttached"] == [{"name": name, "devicePath": ""}]
    notes = node.tree["metadata"]["annotations"]
    assert notes["csi.volume.kubernetes.io/nodeid"] == '{"hostpath.csi.k8s.io":"node-1"}'
    own = next(each for each in small.objects("csinodes") if each.name == "node-1")
    assert own.tree["spec"]["drivers"] == [
        {"name": DRIVER, "nodeID": "node-1", "topologyKeys": None}
    ]
    pv = small.objects("persistentvolumes")[0].name
    said = f'AttachVolume.Attach succeeded for volume "{pv}" '
    assert messages(small, "SuccessfulAttachVolume") == [said]


def test_a_second_node_waits_until_the_first_has_let_go():
    small = world(
        pod("web", "node-1"), 30, pod("late", "node-2"), 30, remove("web"), 60
    ).run()  # fmt: skip
    (told,) = messages(small, "FailedAttachVolume")
    assert told.startswith("Multi-Attach error for volume ")
    assert told.endswith("Volume is already used by pod(s) web")
    (volume,) = disk(small).volumes
    assert list(disk(small).attached[volume]) == ["node-2"]
    assert {each.name for each in small.objects("pods")} == {"late"}
    assert small.one("pods").status.phase == "Running"


def test_what_several_nodes_may_have_is_attached_to_both():
    small = world(
        pod("web", "node-1"), pod("late", "node-2"), 60, mode="ReadWriteMany"
    ).run()  # fmt: skip
    (volume,) = disk(small).volumes
    assert sorted(disk(small).attached[volume]) == ["node-1", "node-2"]
    assert messages(small, "FailedAttachVolume") == []


def test_an_attachment_that_fails_is_told_of_and_tried_again():
    fault = Fault("ControllerPublishVolume", count=2, code="Internal", message="no room")
    small = world(pod("web", "node-1"), 60, faults=(fault,)).run()
    told = messages(small, "FailedAttachVolume")
    assert told
    assert all(each.endswith(" : rpc error: code = Internal desc = no room") for each in told)
    assert small.one("pods").status.phase == "Running"
    (attachment,) = small.objects("volumeattachments")
    assert attachment.tree["status"] == {"attached": True}


@pytest.mark.parametrize("method", ["NodeStageVolume", "NodePublishVolume"])
def test_a_mount_that_fails_is_told_of_and_tried_again(method):
    fault = Fault(method, count=1, code="Internal", message="not now")
    small = world(pod("web", "node-1"), 60, faults=(fault,)).run()
    (told,) = messages(small, "FailedMount")
    what = "MountDevice" if method == "NodeStageVolume" else "SetUp"
    assert told.startswith(f'MountVolume.{what} failed for volume "pvc-')
    assert told.endswith(" : rpc error: code = Internal desc = not now")
    assert small.one("pods").status.phase == "Running"


async def _die(_client: Any, ctx: Any) -> None:
    ctx.faults.crash("node-1")


async def _force(client: Any, _ctx: Any) -> None:
    await client.delete(PODS, "default", "web", grace_period_seconds=0)


async def _out_of_service(client: Any, _ctx: Any) -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    await client.patch(NODES, "", "node-1", {"spec": {"taints": [taint]}})


def _detached_after(small: Small, since: float) -> float:
    (at,) = [
        event.t_ns / 1e9
        for event in small.log
        if event.event == "csi.call" and event.data["method"] == "ControllerUnpublishVolume"
    ]
    return at - since


def test_a_dead_node_keeps_a_volume_for_six_minutes():
    small = world(
        pod("web", "node-1"), 30, _die, 60, _force, pod("late", "node-2"), 500
    ).run()  # fmt: skip
    assert 360 < _detached_after(small, 90) < 375
    late = next(each for each in small.objects("pods") if each.name == "late")
    assert late.view.status.phase == "Running"


def test_a_node_out_of_service_gives_its_volumes_away_at_once():
    small = world(
        pod("web", "node-1"), 30, _die, 60, _force, _out_of_service, pod("late", "node-2"), 60
    ).run()  # fmt: skip
    assert 0 < _detached_after(small, 90) < 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("process", ["controller-manager", "csi-attacher", "node-1"])
def test_whoever_restarts_in_between_goes_on_where_it_was(process, seed):
    async def restart(_client: Any, ctx: Any) -> None:
        for _ in range(ctx.choose("moment", 60, process)):
            await ctx.point("user.wait")
        ctx.faults.crash(process)
        ctx.faults.restart(process)

    small = world(
        pod("web", "node-1"), 1, restart, 60, remove("web"), restart, 60,
        strategy=RandomWalk(seed),
    ).run()  # fmt: skip
    assert small.objects("pods") == []
    assert small.objects("volumeattachments") == []
    (volume,) = disk(small).volumes
    assert not disk(small).attached[volume]
    assert not disk(small).published[volume]


def test_a_driver_that_needs_no_attaching_is_only_mounted():
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"attachRequired": False},
    }
    small = Small(
        ("*",),
        (CSI_DRIVERS, driver),
        (STORAGE_CLASSES, CLASS),
        claim(),
        pod("web", "node-1"),
        30,
        store=storage.store(),
        storage=Storage([CsiDriver()]),
    ).run()
    assert small.one("pods").status.phase == "Running"
    assert small.objects("volumeattachments") == []
    assert "NodePublishVolume" in calls(small)
