"""Pods that name config maps, secrets, claims or accounts which are not there wait for them."""

from __future__ import annotations

import pytest

from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import config_map, pod
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

PODS = "/registry/pods/"


def run(workload, **options):
    done = Campaign(plan_of(Scenario("objects", workload=workload), nodes=1, **options)).under(0)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def web(run):
    return next(obj for obj in run.objects(PODS) if obj.name == "web")


def state(run):
    status = web(run).tree["status"]
    return status["phase"], status["containerStatuses"][0]["state"]


def events(run, reason):
    found = [obj.tree for obj in run.objects("/registry/events/")]
    return [each["message"] for each in found if each["reason"] == reason]


def with_env(env=(), **container):
    tree = pod("web", nodeName="node-1")
    tree["spec"]["containers"][0].update({"env": list(env), **container})
    return tree


def with_volume(**source):
    tree = pod("web", nodeName="node-1", volumes=[{"name": "data", **source}])
    tree["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return tree


def ref(kind, name, key, **more):
    return {"name": "X", "valueFrom": {kind: {"name": name, "key": key, **more}}}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (with_env([ref("configMapKeyRef", "cfg", "k")]), 'configmap "cfg" not found'),
        (with_env([ref("secretKeyRef", "s", "k")]), 'secret "s" not found'),
        (with_env(envFrom=[{"configMapRef": {"name": "cfg"}}]), 'configmap "cfg" not found'),
        (
            with_env([ref("configMapKeyRef", "there", "other")]),
            "couldn't find key other in ConfigMap default/there",
        ),
    ],
)
def test_a_container_without_its_environment_is_not_made(tree, message) -> None:
    async def workload(user) -> None:
        await user.create(config_map("there", k="v"))
        await user.create(tree)
        await user.sleep(60)

    done = run(workload)
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    assert state(done) == ("Pending", {"waiting": waiting})
    assert events(done, "Failed") == [f"Error: {message}"]


def test_it_is_made_with_the_next_try_once_the_config_map_is_there() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(with_env([ref("configMapKeyRef", "cfg", "k")]))
        await user.sleep(28)
        await user.create(config_map("cfg", k="v"))
        await user.sleep(2)
        seen.append(state(user.run)[0])
        await user.sleep(15)

    done = run(workload)
    assert seen == ["Pending"]
    assert state(done)[0] == "Running"


@pytest.mark.parametrize(
    "tree",
    [
        with_env([ref("configMapKeyRef", "cfg", "k", optional=True)]),
        with_env(envFrom=[{"secretRef": {"name": "s", "optional": True}}]),
        with_volume(configMap={"name": "cfg", "optional": True}),
        with_volume(projected={"sources": [{"secret": {"name": "s", "optional": True}}]}),
        with_volume(emptyDir={}),
    ],
)
def test_what_is_optional_is_not_waited_for(tree) -> None:
    async def workload(user) -> None:
        await user.create(tree)
        await user.sleep(60)

    assert state(run(workload))[0] == "Running"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"configMap": {"name": "cfg"}},
            'MountVolume.SetUp failed for volume "data" : configmap "cfg" not found',
        ),
        (
            {"secret": {"secretName": "s"}},
            'MountVolume.SetUp failed for volume "data" : secret "s" not found',
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "cfg"}}, {"secret": {"name": "s"}}]}},
            'MountVolume.SetUp failed for volume "data" : [configmap "cfg" not found, '
            'secret "s" not found]',
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], "
            "failed to process volumes=[data]: error processing PVC default/c: failed to fetch PVC "
            'from API server: persistentvolumeclaims "c" not found',
        ),
    ],
)
def test_a_pod_without_its_volume_stays_in_creation(source, message) -> None:
    async def workload(user) -> None:
        await user.create(with_volume(**source))
        await user.sleep(60)

    done = run(workload)
    assert state(done) == ("Pending", {"waiting": {"reason": "ContainerCreating"}})
    assert events(done, "FailedMount") == [message]


def test_a_volume_is_set_up_once_its_config_map_is_there() -> None:
    async def workload(user) -> None:
        await user.create(with_volume(configMap={"name": "cfg"}))
        await user.sleep(10)
        await user.create(config_map("cfg", k="v"))
        await user.sleep(60)

    assert state(run(workload))[0] == "Running"


def test_a_pod_that_waits_can_be_deleted_and_its_watch_ends() -> None:
    async def workload(user) -> None:
        await user.create(with_volume(configMap={"name": "cfg"}))
        await user.sleep(10)
        await user.delete("Pod", "web", grace_period_seconds=1)
        await user.sleep(10)
        assert not user.run.objects(PODS)

    run(workload)
