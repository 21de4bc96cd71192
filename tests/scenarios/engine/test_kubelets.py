"""Nodes whose kubelets hand out CPUs and memory: what they report, what always holds, and what a crash leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.engine.kubelets import pictures
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.nodes import (
    checkpoints_agree,
    ended_pods_hold_nothing,
    no_two_run_on_one_cpu,
    nothing_is_handed_out_twice,
    promises_fit,
)
from controlplane.scenarios.search.exploring import Campaign
from tests.kubelet.loops.test_resize import sized

CONFIG = Path(__file__).parents[3] / "examples" / "cpu-manager-kubelet.yaml"
EQUIPPED = {"nodes": 1, "kubelet_config": str(CONFIG), "machine": "cores=8 threads=2 memory=16Gi"}
NODE = "node-1"
HOLDS = (
    nothing_is_handed_out_twice(NODE),
    no_two_run_on_one_cpu(NODE),
    checkpoints_agree(NODE),
    promises_fit(NODE),
    ended_pods_hold_nothing(NODE),
)


def is_gone(run, name: str) -> bool:
    return all(each.name != name for each in run.objects("/registry/pods/"))


async def pinned(user) -> None:
    """Pods with CPUs of their own come and go; one is recreated under its name at once."""
    for number in range(6):
        name = f"pin-{number % 3}"
        if await user.exists("Pod", name):
            await user.attempt(user.delete("Pod", name))
            if not await user.wait_until(lambda run, pod=name: is_gone(run, pod), patience_s=300):
                return  # a kubelet that refuses to start ends no pod
        await user.attempt(user.create(sized(name, str(1 + user.choose(3, "CPUs")), limits=True)))
        await user.sleep(user.choose(3, "pause"))
    await user.sleep(60)


def test_the_node_reports_what_its_machine_has() -> None:
    async def idle(user) -> None:
        await user.sleep(5)

    run = Campaign(plan_of(Scenario("idle", workload=idle), **EQUIPPED), "fifo").under(0)
    (node,) = run.objects("/registry/minions/")
    status = node.tree["status"]
    assert status["capacity"]["cpu"] == "16"
    assert status["allocatable"]["cpu"] == "15"
    assert status["capacity"]["memory"] == "16Gi"
    assert status["allocatable"]["memory"] == "15Gi"
    (text,) = pictures(run)
    assert text.startswith("node-1\nNUMA 0 (socket 0) #. ")


@pytest.mark.slow
def test_pods_get_cpus_of_their_own_whatever_the_schedule() -> None:
    scenario = Scenario("pinned", workload=pinned, invariants=HOLDS)
    found = Campaign(plan_of(scenario, **EQUIPPED)).explore(30)
    assert not found.findings, found.findings[0].result.reason


@pytest.mark.slow
def test_after_a_crash_memory_and_files_agree_or_the_kubelet_says_why_not() -> None:
    """A kill between the two writes of one allocation leaves a file that the next start refuses (issue 84783)."""
    scenario = Scenario(
        "crashes",
        workload=pinned,
        faults=[restarts(NODE, 2, every_s=1, moments=12)],
        invariants=HOLDS,
    )
    found = Campaign(plan_of(scenario, **EQUIPPED)).explore(40)
    assert not found.findings, found.findings[0].result.reason


def test_a_file_that_says_something_else_than_the_managers_is_told_of() -> None:
    agree = checkpoints_agree(NODE)
    said = []

    async def tampered(user) -> None:
        await user.create(sized("pin", "2", limits=True))
        await user.sleep(20)
        user.run.world.disk(NODE).write("cpu_manager_state", "{}")
        said.append(agree.check(user.run))

    Campaign(plan_of(Scenario("tampered", workload=tampered), **EQUIPPED), "fifo").under(0)
    assert agree.after == (NODE,)
    assert said == ["node-1: cpu_manager_state is not what is remembered"]


def test_more_promises_than_there_is_room_are_told_of() -> None:
    async def shrunk(user) -> None:
        await user.create(sized("big", "12", limits=True))
        await user.sleep(20)
        smaller = {"status": {"allocatable": {"cpu": "4"}}}
        await user.patch("Node", NODE, smaller, subresource="status")
        await user.sleep(5)

    assert verdict(shrunk, promises_fit(NODE)) == (
        "no more is promised than is allocatable: node-1: 12000 of cpu are promised, 4000 are allocatable"
    )


def test_cpus_of_a_pod_that_is_over_are_told_of() -> None:
    async def kept(user) -> None:
        await user.create(sized("pin", "2", limits=True))
        await user.sleep(20)
        user.cut(NODE, "apiserver")
        await user.delete("Pod", "pin", grace_period_seconds=0)

    said = verdict(kept, ended_pods_hold_nothing(NODE))
    assert said.startswith("a pod that has ended holds nothing: node-1: pod ")


def verdict(workload, invariant) -> str:
    scenario = Scenario("broken", workload=workload, invariants=(invariant,))
    plan = plan_of(scenario, heartbeats=False, **EQUIPPED)
    return str(Campaign(plan, "fifo").under(0).result.reason)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kubelet_config": "none.yaml"}, "none.yaml: no such file or directory"),
        ({"machine": "cores=x"}, "machine: 'cores=x': expected a number of 1 or more"),
        ({"kubelet_config": str(CONFIG.with_name("missing.yaml"))}, "no such file or directory"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(options, told) -> None:
    async def idle(_user) -> None:
        pass

    with pytest.raises(UsageError, match=told.replace("[", r"\[")):
        plan_of(Scenario("idle", workload=idle), **{"nodes": 1, **options})


def test_a_policy_that_the_machine_does_not_take_is_refused(tmp_path) -> None:
    async def idle(_user) -> None:
        pass

    file = tmp_path / "kubelet.yaml"
    file.write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
    )
    with pytest.raises(UsageError, match="unable to determine reserved CPU") as told:
        plan_of(
            Scenario("idle", workload=idle), nodes=1, kubelet_config=str(file), machine="cores=8"
        )
    assert str(told.value).startswith(f"{file}: [cpumanager] unable")


def test_the_example_of_the_documentation_shows_who_owns_what() -> None:
    from tests.cli.test_run import ROOT, controlplane

    shown = controlplane(
        "run",
        ROOT / "examples" / "cpu-manager.yaml",
        "--nodes",
        1,
        "--kubelet-config",
        CONFIG,
        "--machine",
        "sockets=2 cores=8 threads=2 memory=16Gi",
    )
    assert shown.returncode == 0, shown.stderr
    page = (ROOT / "docs" / "how-to" / "numa-node.md").read_text(encoding="utf-8")
    picture = page.partition("```text\nnode-1\n")[2].partition("```")[0]
    assert picture.startswith("NUMA 0 (socket 0) #")
    assert picture in shown.stdout


def test_a_node_whose_machine_does_not_take_the_policy_ends_its_kubelet_and_nothing_else(
    tmp_path,
) -> None:
    """Which machine a node has is only known when its manifest is read."""

    async def idle(user) -> None:
        await user.sleep(5)

    file = tmp_path / "kubelet.yaml"
    file.write_text(
        CONFIG.read_text().replace("kubeReserved:\n  cpu: 500m", "kubeReserved:\n  cpu: 20000m")
    )
    scenario = Scenario("idle", workload=idle)
    plan = plan_of(scenario, nodes=1, node_cpu="2", kubelet_config=str(file))
    run = Campaign(plan, "fifo").under(0)
    assert run.result.verdict == "quiescent", run.result.reason
    fatal = [event.data["message"] for event in run.world.log if event.event == "kubelet.fatal"]
    assert len(fatal) == 1
    assert run.cluster.machines["node-1"].refused == fatal[0]
