import pytest

from controlplane.api.claims import PersistentVolumeClaim
from controlplane.api.storage import PersistentVolume, StorageClass
from controlplane.decisions import at_once
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.cycle import binding
from controlplane.scheduler.framework.interface import StatusError
from controlplane.scheduler.state.listers import MemoryLister
from tests.scheduler.make import World, node, pod


def claim(name, **spec):
    annotations = spec.pop("annotations", {})
    return PersistentVolumeClaim.from_tree(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "annotations": annotations,
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "late",
                **spec,
            },
        }
    )


def volume(name, size="1Gi", **spec):
    return PersistentVolume.from_tree(
        {
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "late",
                **spec,
            },
            "status": {"phase": "Available"},
        }
    )


def storage_class(provisioner="kubernetes.io/no-provisioner"):
    return StorageClass.from_tree(
        {
            "metadata": {"name": "late"},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )


def world_with(*, volumes=(), claims=(), classes=(), nodes=("n",)):
    world = World()
    listers = world.scheduler.listers
    listers.persistent_volumes = MemoryLister(volumes)
    listers.persistent_volume_claims = MemoryLister(claims)
    listers.storage_classes = MemoryLister(classes)
    for name in nodes:
        at_once(handlers.add_node(world.scheduler, node(name), world.now))
    return world


def submit(world, name, claim_name):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    each = pod(name, volumes=volumes)
    world.pods.put(each)
    at_once(handlers.add_pod(world.scheduler, each, world.now))
    attempt = world.attempt()
    if attempt.failure is None:
        at_once(binding.assume(world.cache, world.queue, attempt))
        at_once(binding.reserve_and_permit(world.cache, attempt))
    return attempt


def volume_binding(attempt):
    return next(p for p in attempt.framework.plugins.pre_bind if p.name == "VolumeBinding")


def test_the_smallest_volume_that_fits_is_bound_before_the_pod():
    volumes = [volume("big", "9Gi"), volume("right", "2Gi"), volume("small", "500Mi")]
    world = world_with(volumes=volumes, claims=[claim("c")], classes=[storage_class()])
    attempt = submit(world, "p", "c")
    assert binding.pre_bind_pre_flight(attempt).patch(0).patch == {
        "status": {"nominatedNodeName": "n"}
    }
    ((plugin, write),) = binding.pre_bind(attempt)
    assert (plugin, write.resource, write.name) == ("VolumeBinding", "persistentvolumes", "right")
    assert write.body["spec"]["claimRef"]["uid"] == "uid-c"
    assert write.body["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}


def test_a_volume_reserved_in_memory_is_not_given_away_again():
    claims = [claim("c"), claim("d")]
    world = world_with(volumes=[volume("v")], claims=claims, classes=[storage_class()])
    first = submit(world, "p", "c")
    assert "didn't find available persistent volumes" in submit(world, "q", "d").failure.message
    at_once(binding.release(world.cache, first))
    assert submit(world, "r", "d").failure is None


def test_a_claim_without_a_volume_is_provisioned_for_the_chosen_node():
    world = world_with(claims=[claim("c")], classes=[storage_class("example.com/p")])
    attempt = submit(world, "p", "c")
    binding.pre_bind_pre_flight(attempt)
    ((_, write),) = binding.pre_bind(attempt)
    assert (write.resource, write.name) == ("persistentvolumeclaims", "c")
    assert write.body["metadata"]["annotations"] == {"volume.kubernetes.io/selected-node": "n"}
    plugin = volume_binding(attempt)
    claims = world.scheduler.listers.persistent_volume_claims
    claims.put(claim("c", annotations={"volume.kubernetes.io/selected-node": "n"}))
    assert not plugin.is_bound(attempt.state, attempt.pod, "n")
    done = {
        "volume.kubernetes.io/selected-node": "n",
        "pv.kubernetes.io/bind-completed": "yes",
    }
    claims.put(claim("c", annotations=done, volumeName="made"))
    assert plugin.is_bound(attempt.state, attempt.pod, "n")


def test_a_provisioner_that_gives_up_ends_the_wait():
    world = world_with(claims=[claim("c")], classes=[storage_class("example.com/p")])
    attempt = submit(world, "p", "c")
    binding.pre_bind_pre_flight(attempt)
    with pytest.raises(StatusError, match='provisioning failed for PVC "c"'):
        volume_binding(attempt).is_bound(attempt.state, attempt.pod, "n")
    world.pods.remove("default", "p")
    with pytest.raises(StatusError, match="pod does not exist any more"):
        volume_binding(attempt).is_bound(attempt.state, attempt.pod, "n")


def test_bound_claims_need_no_writes_and_keep_the_pod_near_their_volume():
    affinity = {
        "required": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}
                    ]
                }
            ]
        }
    }
    bound = claim("c", volumeName="v", annotations={"pv.kubernetes.io/bind-completed": "yes"})
    world = world_with(
        volumes=[volume("v", nodeAffinity=affinity)], claims=[bound], nodes=("a", "b")
    )
    attempt = submit(world, "p", "c")
    assert attempt.node_name == "b"
    assert binding.pre_bind_pre_flight(attempt) is None
    assert binding.pre_bind(attempt) == []


def test_a_missing_claim_is_named():
    world = world_with()
    message = submit(world, "p", "c").failure.message
    assert message.startswith('0/1 nodes are available: persistentvolumeclaim "c" not found.')
