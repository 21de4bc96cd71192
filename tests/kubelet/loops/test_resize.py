"""In-place resize in a world: from the subresource to the containers and back into the status."""

from __future__ import annotations

import json

import pytest

from controlplane.client.errors import ApiError
from controlplane.scenarios import Run, Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

PODS = "/registry/pods/"


def sized(name: str, cpu: str, memory: str = "1Gi", *, limits: bool = False, **more) -> dict:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    if limits:
        resources["limits"] = dict(resources["requests"])
    container = {
        "name": "main",
        "image": "app:1",
        "resources": resources,
        **more.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **more},
        "spec": {"nodeName": "node-1", "containers": [container]},
    }


def run(workload, *, strategy="fifo", seed=0, **options):
    scenario = Scenario("resize", workload=workload)
    done = Campaign(plan_of(scenario, nodes=1, node_cpu="4", **options), strategy).under(seed)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def tree(run: Run, name: str) -> dict:
    return next(obj.tree for obj in run.objects(PODS) if obj.name == name)


def status(run: Run, name: str) -> dict:
    return tree(run, name)["status"]


def resize_conditions(run: Run, name: str) -> list[tuple[str, str, int]]:
    return [
        (each["type"], each.get("reason", ""), each.get("observedGeneration", 0))
        for each in status(run, name)["conditions"]
        if each["type"].startswith("PodResize")
    ]


def events(run: Run, name: str) -> list[str]:
    return [
        obj.view.reason
        for obj in run.objects("/registry/events/")
        if obj.view.involved_object.name == name and "Resize" in obj.view.reason
    ]


def container(run: Run, name: str) -> dict:
    return status(run, name)["containerStatuses"][0]


def test_what_fits_is_given_at_once() -> None:
    async def workload(user) -> None:
        await user.create(sized("web", "1"))
        await user.sleep(20)
        await user.resize("web", "main", cpu="2")
        await user.sleep(30)

    done = run(workload)
    assert container(done, "web")["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert container(done, "web")["allocatedResources"] == {"cpu": "2", "memory": "1Gi"}
    assert container(done, "web")["restartCount"] == 0
    assert resize_conditions(done, "web") == []
    assert events(done, "web") == ["ResizeStarted", "ResizeCompleted"]


def test_what_does_not_fit_waits_until_a_pod_goes() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(sized("big", "3"))
        await user.create(sized("web", "1"))
        await user.sleep(20)
        await user.resize("web", "main", cpu="2")
        await user.sleep(30)
        seen.append((resize_conditions(user.run, "web"), container(user.run, "web")["resources"]))
        await user.delete("Pod", "big")
        await user.sleep(60)

    done = run(workload)
    assert seen == [
        ([("PodResizePending", "Deferred", 2)], {"requests": {"cpu": "1", "memory": "1Gi"}})
    ]
    assert container(done, "web")["resources"]["requests"]["cpu"] == "2"
    assert resize_conditions(done, "web") == []
    assert events(done, "web") == ["ResizeDeferred", "ResizeStarted", "ResizeCompleted"]


def deferred_beside(end, *, grace: str = "", **options):
    """The allocated CPUs of `web`, ten seconds after `end` took its big neighbour away, whose resize was deferred."""
    seen = []

    async def workload(user) -> None:
        big = sized("big", "3")
        if grace:
            big["metadata"]["annotations"] = {"emulate.controlplane/stop-seconds": grace}
        await user.create(big)
        await user.create(sized("web", "1"))
        await user.sleep(20)
        await user.resize("web", "main", cpu="2")
        await user.sleep(30)
        assert resize_conditions(user.run, "web") == [("PodResizePending", "Deferred", 2)]
        await end(user)
        await user.sleep(40)
        seen.append(container(user.run, "web")["allocatedResources"]["cpu"])

    run(workload, **options)
    return seen[0]


@pytest.mark.parametrize("gates", [(), ("here14",)])
def test_the_room_of_a_pod_that_another_client_failed_is_used(gates) -> None:
    """At once without the repair of here14, and when the containers have stopped with it."""

    async def fail(user) -> None:
        await user.patch("Pod", "big", {"status": {"phase": "Failed"}}, subresource="status")

    assert deferred_beside(fail, grace="20", fix=gates) == "2"


@pytest.mark.parametrize("gates", [(), ("104824",)])
def test_the_room_of_a_pod_deleted_by_force_is_used(gates) -> None:
    """With the repair of 104824 it is free when the containers have stopped, long after the object went."""

    async def force(user) -> None:
        await user.delete("Pod", "big", grace_period_seconds=0)

    assert deferred_beside(force, grace="20", fix=gates) == "2"


@pytest.mark.slow
def test_two_resizes_in_a_row_and_the_first_is_deferred() -> None:
    async def workload(user) -> None:
        await user.create(sized("big", "3"))
        await user.create(sized("web", "500m"))
        await user.sleep(20)
        await user.resize("web", "main", cpu="2")
        await user.sleep(user.choose(3, "how long"))
        await user.resize("web", "main", cpu="800m")
        await user.sleep(60)

    for seed in range(12):
        done = run(workload, strategy="random-walk", seed=seed)
        assert container(done, "web")["resources"]["requests"]["cpu"] == "800m"
        assert resize_conditions(done, "web") == []


def test_a_resource_that_needs_a_restart_restarts_its_container() -> None:
    policy = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}

    async def workload(user) -> None:
        await user.create(sized("web", "1", container=policy))
        await user.sleep(20)
        await user.resize("web", "main", memory="2Gi")
        await user.sleep(60)

    done = run(workload)
    assert container(done, "web")["restartCount"] == 1
    assert container(done, "web")["resources"]["requests"] == {"cpu": "1", "memory": "2Gi"}
    assert resize_conditions(done, "web") == []


def test_memory_in_use_is_not_taken_away() -> None:
    used = {"annotations": {"emulate.controlplane/memory-usage": "1500Mi"}}

    async def workload(user) -> None:
        await user.create(sized("web", "1", "2Gi", limits=True, **used))
        await user.sleep(20)
        less = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
        change = {"spec": {"containers": [{"name": "main", "resources": less}]}}
        await user.patch("Pod", "web", change, subresource="resize")
        await user.sleep(35)
        seen.append(resize_conditions(user.run, "web"))
        await user.patch(
            "Pod", "web", {"metadata": {"annotations": dict.fromkeys(used["annotations"], "0")}}
        )
        await user.sleep(35)

    seen: list[object] = []
    done = run(workload)
    assert seen == [[("PodResizeInProgress", "Error", 2)]]
    assert events(done, "web") == ["ResizeStarted", "ResizeError", "ResizeCompleted"]
    assert container(done, "web")["resources"]["limits"]["memory"] == "1Gi"


def test_a_refused_update_is_told_of_and_tried_again() -> None:
    """The first container has its new size by then, and keeps it; the second gets it ten seconds later."""
    seen = []

    async def workload(user) -> None:
        fails = {"annotations": {"emulate.controlplane/resize-fails.other": "1"}}
        tree = sized("web", "500m", **fails)
        (one,) = tree["spec"]["containers"]
        tree["spec"]["containers"].append({**one, "name": "other"})
        await user.create(tree)
        await user.sleep(20)
        more = {"requests": {"cpu": "1"}}
        both = [{"name": name, "resources": more} for name in ("main", "other")]
        await user.patch("Pod", "web", {"spec": {"containers": both}}, subresource="resize")
        await user.sleep(4)
        seen.append(resize_conditions(user.run, "web"))
        statuses = status(user.run, "web")["containerStatuses"]
        seen.append([each["resources"]["requests"]["cpu"] for each in statuses])
        await user.sleep(30)

    done = run(workload)
    assert seen == [[("PodResizeInProgress", "Error", 2)], ["1", "500m"]]
    statuses = status(done, "web")["containerStatuses"]
    assert [each["resources"]["requests"]["cpu"] for each in statuses] == ["1", "1"]
    assert events(done, "web") == ["ResizeStarted", "ResizeError", "ResizeCompleted"]


def test_the_runtime_may_refuse_to_change_the_pods_cgroup() -> None:
    seen = []

    async def workload(user) -> None:
        fails = {"annotations": {"emulate.controlplane/pod-resize-fails": "1"}}
        await user.create(sized("web", "1", **fails))
        await user.sleep(20)
        await user.resize("web", "main", cpu="2")
        await user.sleep(4)
        conditions = status(user.run, "web")["conditions"]
        seen.extend(each["message"] for each in conditions if each["type"].startswith("PodResize"))
        await user.sleep(30)

    done = run(workload)
    assert seen == [
        "failed to notify runtime for UpdatePodSandboxResources (resource=cpu); resize rejected: "
        "the emulated runtime refuses the update"
    ]
    assert container(done, "web")["resources"]["requests"]["cpu"] == "2"


@pytest.mark.parametrize("seed", range(10))
def test_however_often_the_runtime_refuses_the_newest_size_wins(seed) -> None:
    async def workload(user) -> None:
        maybe = {"emulate.controlplane/resize-fails": "maybe"}
        await user.create(sized("web", "500m", annotations=maybe))
        await user.sleep(20)
        await user.resize("web", "main", cpu="2")
        await user.sleep(user.choose(3, "how long"))
        await user.resize("web", "main", cpu="800m")
        await user.sleep(30)
        done = {"metadata": {"annotations": dict.fromkeys(maybe)}}
        await user.patch("Pod", "web", done)
        await user.sleep(60)

    done = run(workload, strategy="random-walk", seed=seed)
    assert container(done, "web")["resources"]["requests"]["cpu"] == "800m"
    assert resize_conditions(done, "web") == []


@pytest.mark.parametrize("seed", range(6))
def test_after_a_crash_the_promise_holds(seed) -> None:
    """What was deferred before is deferred after it, and what was promised is not lost."""

    async def workload(user) -> None:
        await user.create(sized("big", "3"))
        await user.create(sized("web", "500m"))
        await user.sleep(20)
        await user.resize("web", "main", cpu="1")
        await user.resize("web", "main", cpu="2")
        await user.sleep(user.choose(3, "how long"))
        user.crash("node-1")
        await user.sleep(3)
        user.restart("node-1")
        await user.sleep(60)

    done = run(workload, strategy="random-walk", seed=seed)
    assert resize_conditions(done, "web") == [("PodResizePending", "Deferred", 3)]
    kept = json.loads(json.loads(done.world.disk("node-1").read("allocated_pods_state"))["data"])
    promised = kept["entries"][tree(done, "web")["metadata"]["uid"]]["ContainerResources"]["main"]
    assert container(done, "web")["resources"] == promised


def test_the_subresource_refuses_what_the_node_never_has() -> None:
    refused = []

    async def workload(user) -> None:
        await user.create(sized("web", "1"))
        await user.sleep(20)
        try:
            await user.resize("web", "main", cpu="64")
        except ApiError as error:
            refused.append(error.code)

    run(workload)
    assert refused == [403]


def whole(cpu: str, **limits: str) -> dict:
    """A pod with resources of its own."""
    tree = sized("web", "500m")
    limited = {"cpu": "4", "memory": "2Gi", **limits}
    tree["spec"]["resources"] = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": limited}
    return tree


def counted(run: Run, name: str) -> int:
    """What a pod counts for in the scheduler, in millicores."""
    cache = run.cluster.scheduler.core.cache
    infos = (info for node in cache.nodes.values() for info in node.pods)
    return next(info.resource.resource.milli_cpu for info in infos if info.pod.name == name)


def test_the_resources_of_a_pod_as_a_whole_are_resized() -> None:
    seen = []

    async def workload(user) -> None:
        def look() -> None:
            told = status(user.run, "web")
            has, promised = told["resources"]["requests"]["cpu"], told["allocatedResources"]["cpu"]
            seen.append((has, promised, counted(user.run, "web")))
            seen.append(resize_conditions(user.run, "web"))

        await user.create(whole("1"))
        await user.create(sized("other", "1"))
        await user.sleep(20)
        look()
        for cpu in ("2", "3500m", "1500m"):
            change = {"spec": {"resources": {"requests": {"cpu": cpu}}}}
            await user.patch("Pod", "web", change, subresource="resize")
            await user.sleep(20)
            look()

    done = run(workload)
    assert seen[::2] == [
        ("1", "1", 1000),
        ("2", "2", 2000),
        ("2", "2", 3500),  # what it waits for counts in the scheduler
        ("1500m", "1500m", 1500),
    ]
    assert seen[1::2] == [[], [], [("PodResizePending", "Deferred", 3)], []]
    assert events(done, "web") == [
        "ResizeStarted",
        "ResizeCompleted",
        "ResizeDeferred",
        "ResizeStarted",
        "ResizeCompleted",
    ]


def test_the_runtime_may_refuse_the_resources_of_a_pod_as_a_whole() -> None:
    seen = []

    async def workload(user) -> None:
        tree = whole("1")
        tree["metadata"]["annotations"] = {"emulate.controlplane/pod-resize-fails": "1"}
        await user.create(tree)
        await user.sleep(20)
        change = {"spec": {"resources": {"requests": {"cpu": "2"}}}}
        await user.patch("Pod", "web", change, subresource="resize")
        await user.sleep(4)
        told = status(user.run, "web")
        seen.append((told["resources"]["requests"]["cpu"], told["allocatedResources"]["cpu"]))
        seen.append(resize_conditions(user.run, "web"))
        await user.sleep(20)

    done = run(workload)
    assert seen == [("1", "2"), [("PodResizeInProgress", "Error", 2)]]
    assert status(done, "web")["resources"]["requests"]["cpu"] == "2"
    assert resize_conditions(done, "web") == []
