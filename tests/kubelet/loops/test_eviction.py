"""Eviction on node pressure in a world: thresholds, ranks, messages, conditions, taints, admission."""

from __future__ import annotations

import pytest

from controlplane.scenarios import Run, Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

PREFIX = "emulate.controlplane/"
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


CRITICAL = "system-node-critical"


def using(name: str, *, request: str = "", rank: str = "", kind: str = "memory", **uses) -> dict:
    container: dict = {"name": "main", "image": "app:1"}
    if request:
        resource = "memory" if kind == "memory" else "ephemeral-storage"
        container["resources"] = {"requests": {resource: request}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {
                f"{PREFIX}{key.replace('_', '-')}-usage": value for key, value in uses.items()
            },
        },
        "spec": {"nodeName": "node-1", "priorityClassName": rank, "containers": [container]},
    }


@pytest.fixture
def configured(tmp_path):
    def write(text: str) -> str:
        file = tmp_path / "kubelet.yaml"
        file.write_text(HEADER + text)
        return str(file)

    return write


def run(workload, *, strategy="fifo", seed=0, memory="4Gi", **options) -> Run:
    scenario = Scenario("eviction", workload=workload)
    plan = plan_of(scenario, nodes=1, node_memory=memory, **options)
    done = Campaign(plan, strategy).under(seed)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def pods(run: Run) -> dict:
    return {obj.name: obj.view for obj in run.objects("/registry/pods/")}


def phases(run: Run) -> dict[str, str]:
    return {name: pod.status.phase for name, pod in pods(run).items()}


def node(run: Run):
    (found,) = run.objects("/registry/minions/")
    return found.view


def conditions(run: Run) -> dict[str, str]:
    return {each.type: each.reason for each in node(run).status.conditions}


def reasons(run: Run, kind: str) -> list[str]:
    return [
        obj.view.reason
        for obj in run.objects("/registry/events/")
        if obj.view.involved_object.kind == kind
    ]


def test_the_pod_that_uses_most_above_its_request_goes_and_says_why() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(using("modest", request="2Gi", memory="1Gi"))
        await user.create(using("greedy", request="1Gi", memory="2Gi"))
        await user.create(using("small", memory="1000Mi"))
        await user.sleep(40)
        seen.append((conditions(user.run), [taint.key for taint in node(user.run).spec.taints]))

    done = run(workload)
    assert phases(done) == {"modest": "Running", "greedy": "Failed", "small": "Running"}
    status = pods(done)["greedy"].status
    text = (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 24Mi. "
        "Container main was using 2Gi, request is 1Gi, has larger consumption of memory. "
    )
    assert (status.reason, status.message) == ("Evicted", text)
    (target,) = [each for each in status.conditions if each.type == "DisruptionTarget"]
    assert (target.status, target.reason, target.message) == ("True", "TerminationByKubelet", text)
    assert reasons(done, "Pod").count("Evicted") == 1
    assert seen == [
        (
            {
                "MemoryPressure": "KubeletHasInsufficientMemory",
                "DiskPressure": "KubeletHasNoDiskPressure",
                "PIDPressure": "KubeletHasSufficientPID",
                "Ready": "KubeletReady",
            },
            ["node.kubernetes.io/memory-pressure"],
        )
    ]
    # After the transition period the node is as before.
    assert conditions(done)["MemoryPressure"] == "KubeletHasSufficientMemory"
    assert node(done).spec.taints == ()
    told = reasons(done, "Node")
    assert [each for each in told if "Memory" in each or "Threshold" in each] == [
        "EvictionThresholdMet",
        "NodeHasInsufficientMemory",
        "NodeHasSufficientMemory",
    ]


def test_priority_counts_before_the_amount_and_critical_pods_stay() -> None:
    async def workload(user) -> None:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        await user.create({**kind, "metadata": {"name": "important"}, "value": 10})
        await user.create(using("critical", rank=CRITICAL, memory="2Gi"))
        await user.create(using("important", rank="important", memory="1500Mi"))
        await user.create(using("trifle", memory="500Mi"))
        await user.sleep(60)

    assert phases(run(workload)) == {
        "critical": "Running", "important": "Running", "trifle": "Failed",
    }  # fmt: skip


def test_one_pod_goes_by_a_pass_until_enough_is_free() -> None:
    async def workload(user) -> None:
        for number in range(6):
            await user.create(using(f"p{number}", memory="900Mi"))
        await user.sleep(200)

    for seed, strategy in enumerate(["fifo", "random-walk", "random-walk", "random-walk"]):
        found = list(phases(run(workload, strategy=strategy, seed=seed)).values())
        assert sorted(found) == ["Failed"] * 2 + ["Running"] * 4


@pytest.mark.slow
def test_which_of_equal_pods_goes_is_open() -> None:
    async def workload(user) -> None:
        for name in "abcde":
            await user.create(using(name, memory="900Mi"))
        await user.sleep(60)

    gone = set()
    for seed in range(12):
        found = phases(run(workload, strategy="random-walk", seed=seed))
        gone |= {name for name, phase in found.items() if phase == "Failed"}
    assert len(gone) > 1


def test_a_soft_threshold_waits_for_its_grace_period_and_lets_the_pod_end_itself(
    configured,
) -> None:
    seen = []
    config = configured(
        'evictionSoft: {memory.available: "1Gi"}\n'
        'evictionSoftGracePeriod: {memory.available: "40s"}\nevictionMaxPodGracePeriod: 20\n'
    )

    async def workload(user) -> None:
        tree = using("greedy", memory="3500Mi")
        tree["metadata"]["annotations"][f"{PREFIX}stop-seconds"] = "15"
        await user.create(tree)
        for _ in range(4):
            await user.sleep(25)
            ran = phases(user.run)["greedy"]
            seen.append((ran, conditions(user.run)["MemoryPressure"]))

    done = run(workload, kubelet_config=config)
    low = "KubeletHasInsufficientMemory"
    assert seen == [("Running", low), ("Running", low), ("Failed", low), ("Failed", low)]
    (status,) = pods(done)["greedy"].status.container_statuses
    assert status.state.terminated.exit_code == 0  # it had the time that it needs to stop


def test_pods_go_until_the_minimum_is_reclaimed(configured) -> None:
    async def workload(user) -> None:
        for number in range(5):
            await user.create(using(f"p{number}", memory="850Mi"))
        await user.sleep(120)

    failed = [
        list(phases(run(workload, kubelet_config=configured(text))).values()).count("Failed")
        for text in ("", 'evictionMinimumReclaim: {memory.available: "1400Mi"}\n')
    ]
    assert failed == [1, 2]


def test_under_memory_pressure_best_effort_pods_are_refused_and_others_are_not() -> None:
    tolerant = using("tolerant")
    key = "node.kubernetes.io/memory-pressure"
    tolerant["spec"]["tolerations"] = [{"key": key, "operator": "Exists"}]

    async def workload(user) -> None:
        await user.create(using("greedy", memory="4Gi"))
        await user.sleep(60)
        await user.create(using("best-effort"))
        await user.create(using("burstable", request="1Gi"))
        await user.create(tolerant)
        await user.sleep(30)

    done = run(workload)
    assert phases(done) == {
        "greedy": "Failed", "best-effort": "Failed", "burstable": "Running", "tolerant": "Running",
    }  # fmt: skip
    status = pods(done)["best-effort"].status
    assert (status.reason, status.message) == (
        "Evicted",
        "Pod was rejected: The node had condition: [MemoryPressure]. ",
    )


@pytest.mark.slow
def test_a_controller_that_replaces_what_is_refused_is_stopped_by_the_taint() -> None:
    template = using("web", memory="3900Mi")
    template["metadata"] = {**template["metadata"], "labels": {"app": "web"}}
    del template["metadata"]["name"], template["metadata"]["namespace"]
    del template["spec"]["nodeName"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {k: template[k] for k in ("metadata", "spec")},
        },
    }
    seen = []

    async def workload(user) -> None:
        await user.create(deployment)
        await user.sleep(60)
        seen.append(sorted(phases(user.run).values()))
        await user.patch("Deployment", "web", {"spec": {"replicas": 1}})
        await user.sleep(10)

    run(workload)
    (found,) = seen
    assert [each for each in found if each != "Failed"] == ["Pending", "Running"]
    assert 1 < found.count("Failed") < 110


def test_under_disk_pressure_no_pod_is_taken_and_none_is_scheduled() -> None:
    async def workload(user) -> None:
        await user.create(using("greedy", kind="storage", ephemeral_storage="95Gi"))
        await user.sleep(60)
        await user.create(using("bound", request="1Gi", kind="storage"))
        free = using("free", request="1Gi", kind="storage")
        del free["spec"]["nodeName"]
        await user.create(free)
        await user.sleep(60)
        seen.append(pods(user.run)["free"].spec.node_name)

    seen: list[str] = []
    done = run(workload)
    status = pods(done)["greedy"].status
    assert status.message == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, "
        "available: 5Gi. Container main was using 95Gi, request is 0, "
        "has larger consumption of ephemeral-storage. "
    )  # ten percent of 100Gi, in single precision
    assert pods(done)["bound"].status.message == (
        "Pod was rejected: The node had condition: [DiskPressure]. "
    )
    assert seen == [""]
    assert phases(done)["free"] == "Running"  # once the transition period is over


@pytest.mark.parametrize(
    ("uses", "config", "condition"),
    [
        ({"inodes": "6300000"}, "", "KubeletHasDiskPressure"),
        ({"pids": "4194000"}, 'evictionHard: {pid.available: "1000"}\n', "KubeletHasInsufficientPID"),
    ],
)  # fmt: skip
def test_inodes_and_processes_run_short_as_well(configured, uses, config, condition) -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(using("greedy", **uses))
        await user.sleep(60)
        seen.extend(conditions(user.run).values())

    assert phases(run(workload, kubelet_config=configured(config))) == {"greedy": "Failed"}
    assert condition in seen


def test_what_all_pods_may_use_together_is_less_where_memory_is_reserved(configured) -> None:
    async def workload(user) -> None:
        await user.create(using("greedy", memory="2Gi"))
        await user.sleep(60)

    kept = "systemReserved: {memory: 2Gi}\n"
    found = [
        phases(run(workload, kubelet_config=configured(text)))["greedy"]
        for text in ("", kept, f"{kept}enforceNodeAllocatable: [none]\n")
    ]
    assert found == ["Running", "Failed", "Running"]


def test_a_pod_above_its_limit_of_local_storage_goes_without_any_pressure() -> None:
    async def workload(user) -> None:
        tree = using("web", ephemeral_storage="2Gi")
        tree["spec"]["containers"][0]["resources"] = {"limits": {"ephemeral-storage": "1Gi"}}
        await user.create(tree)
        await user.sleep(30)

    done = run(workload)
    status = pods(done)["web"].status
    assert status.message == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    )
    assert conditions(done)["DiskPressure"] == "KubeletHasNoDiskPressure"


def test_usage_that_grows_later_is_noticed_and_a_restarted_kubelet_sees_it_again() -> None:
    async def workload(user) -> None:
        await user.create(using("web", memory="1Gi"))
        await user.sleep(60)
        user.crash("node-1")
        change = {"metadata": {"annotations": {f"{PREFIX}memory-usage": "4Gi"}}}
        await user.patch("Pod", "web", change)
        await user.sleep(5)
        user.restart("node-1")
        await user.sleep(60)

    assert phases(run(workload)) == {"web": "Failed"}


def test_a_node_with_nothing_to_evict_settles_under_pressure() -> None:
    async def workload(user) -> None:
        await user.create(using("critical", rank=CRITICAL, memory="4Gi"))
        await user.sleep(60)

    done = run(workload)
    assert phases(done) == {"critical": "Running"}
    assert conditions(done)["MemoryPressure"] == "KubeletHasInsufficientMemory"


def test_without_heartbeats_pressure_is_reported_all_the_same() -> None:
    async def workload(user) -> None:
        await user.create(using("critical", rank=CRITICAL, memory="4Gi"))
        await user.sleep(60)

    done = run(workload, heartbeats=False)
    assert conditions(done)["MemoryPressure"] == "KubeletHasInsufficientMemory"
