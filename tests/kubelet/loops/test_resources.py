"""The managers of a node's CPUs and memory in a world: across restarts of their kubelet."""

from __future__ import annotations

from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import STOPS, own_cpus, pod
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

NODE = "node-1"


def held(workload) -> list[dict]:
    """Return the CPU manager's assignments at each call of the workload's function, and at the end."""
    seen: list[dict] = []

    async def main(user) -> None:
        await workload(user, lambda: seen.append(dict(cpus(user.run))))

    def cpus(run):
        return run.cluster.machines[NODE].containers.cpu.state.assignments

    scenario = Scenario("held", workload=main, build=nodes_with_managers(), defaults={"nodes": 1})
    done = Campaign(plan_of(scenario, node_cpu="7"), "fifo").under(0)
    assert done.result.verdict == "quiescent", done.result.reason
    return [*seen, dict(cpus(done))]


def test_cpus_of_a_pod_that_went_just_before_a_crash_come_back_after_the_restart() -> None:
    async def workload(user, look) -> None:
        await user.create(own_cpus("web", "2", NODE))
        await user.sleep(25)
        await user.delete("Pod", "web", grace_period_seconds=0)
        await user.sleep(3)
        look()
        user.crash(NODE)
        user.restart(NODE)
        await user.sleep(30)

    before, after = held(workload)
    assert len(before) == 1
    assert after == {}


def test_cpus_of_a_pod_that_runs_stay_its_own_across_a_restart() -> None:
    async def workload(user, look) -> None:
        await user.create(own_cpus("web", "2", NODE))
        await user.sleep(25)
        look()
        user.crash(NODE)
        user.restart(NODE)
        await user.sleep(30)

    before, after = held(workload)
    assert len(before) == 1
    assert after == before


def test_a_pod_that_was_failed_while_its_kubelet_was_down_counts_until_it_has_stopped() -> None:
    phases: dict[str, str] = {}

    async def workload(user, look) -> None:
        await user.create(pod("stops", "4", nodeName=NODE, terminationGracePeriodSeconds=30))
        await user.patch("Pod", "stops", {"metadata": {"annotations": {STOPS: "8"}}})
        await user.sleep(25)
        look()
        user.crash(NODE)
        failed = {"status": {"phase": "Failed"}}
        await user.patch("Pod", "stops", failed, subresource="status")
        await user.create(pod("waits", "4", nodeName=NODE))
        user.restart(NODE)
        await user.sleep(30)
        for each in user.run.objects("/registry/pods/"):
            phases[each.name] = each.view.status.reason

    held(workload)
    assert phases["waits"] == "OutOfcpu"
