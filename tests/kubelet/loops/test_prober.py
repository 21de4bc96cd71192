"""Probes in a world: what they find reaches the pod's status, and a container that is not alive starts anew."""

from __future__ import annotations

from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

PODS = "/registry/pods/"
SHOWN = "emulate.controlplane/"


def run(workload):
    done = Campaign(plan_of(Scenario("probes", workload=workload), nodes=1), "fifo").under(0)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def container(run):
    return next(obj for obj in run.objects(PODS)).tree["status"]["containerStatuses"][0]


def probed(annotations, **probes):
    tree = pod("web", nodeName="node-1")
    tree["metadata"]["annotations"] = {SHOWN + name: text for name, text in annotations.items()}
    for name, more in probes.items():
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 2, **more}
        tree["spec"]["containers"][0][name] = probe
    return tree


def unhealthy(run):
    found = [obj.tree for obj in run.objects("/registry/events/")]
    return [each["message"] for each in found if each["reason"] == "Unhealthy"]


def test_a_container_is_ready_once_its_probe_succeeds() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(probed({"ready-seconds": "10"}, readinessProbe={}))
        await user.sleep(8)
        seen.append((container(user.run)["started"], container(user.run)["ready"]))
        await user.sleep(30)

    done = run(workload)
    assert seen == [(True, False)]
    assert container(done)["ready"] is True
    assert unhealthy(done) == ["Readiness probe failed: emulated"]


def test_who_fails_the_liveness_probe_starts_anew() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(probed({"live-seconds": "20"}, livenessProbe={"failureThreshold": 2}))
        await user.sleep(35)
        seen.append(container(user.run)["restartCount"])
        await user.delete("Pod", "web")

    done = run(workload)
    assert seen == [1]
    assert "Liveness probe failed: emulated" in unhealthy(done)


def test_until_the_startup_probe_succeeds_liveness_is_not_asked() -> None:
    async def workload(user) -> None:
        tree = probed(
            {"ready-seconds": "12", "live-seconds": "30"},
            startupProbe={"failureThreshold": 20},
            livenessProbe={"failureThreshold": 1},
        )
        await user.create(tree)
        await user.sleep(10)
        assert container(user.run)["started"] is False
        await user.sleep(15)
        assert container(user.run)["started"] is True
        assert container(user.run)["restartCount"] == 0
        await user.delete("Pod", "web")
        await user.sleep(10)

    done = run(workload)
    assert not done.objects(PODS)
