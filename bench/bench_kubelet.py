"""A kubelet's managers on a large machine: pods admitted and removed, and resizes that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.harness import Row, rate, seconds
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.api.quantity import parse
from controlplane.decisions import at_once, writes_to
from controlplane.kubelet.allocation.conditions import ResizeConditions
from controlplane.kubelet.allocation.events import ResizeEvent
from controlplane.kubelet.allocation.manager import AllocationManager, Verdict
from controlplane.kubelet.cm.container_manager import ContainerManager, Policies
from controlplane.kubelet.cm.memorymanager.manager import MemoryReservation
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.manager import ADMITTED, Decision
from controlplane.kubelet.effects import Steps
from controlplane.kubelet.features import DEFAULTS
from controlplane.kubelet.machine import machine_of_text

MACHINE = "sockets=2 numa=4 cores=16 threads=2 caches=2 memory=64Gi"
"""256 CPUs on eight NUMA nodes."""
PODS = 60
TOPOLOGY = ("none", "best-effort", "restricted", "single-numa-node")
OPTIONS: dict[str, dict[str, str]] = {
    "packed": {},
    "full-pcpus-only": {"full-pcpus-only": "true"},
    "distribute-cpus-across-numa": {"distribute-cpus-across-numa": "true"},
    "prefer-align-cpus-by-uncorecache": {"prefer-align-cpus-by-uncorecache": "true"},
}


def pod(number: int) -> Pod:
    amounts = {"cpu": str(2 + number % 3 * 2), "memory": "2Gi"}
    resources = {"requests": amounts, "limits": amounts}
    return Pod.from_tree(
        {
            "metadata": {"name": f"p{number}", "uid": f"0f8fad5b-d9cb-469f-a165-{number:012}"},
            "spec": {"containers": [{"name": "main", "resources": resources}]},
        }
    )


def policies(topology: str, options: dict[str, str]) -> Policies:
    return Policies(
        topology=topology,
        cpu="static",
        cpu_options=options,
        memory="Static",
        reserved_memory=(MemoryReservation(0, {"memory": parse("1Gi")}),),
        reservation={"cpu": parse("2"), "memory": parse("1Gi")},
    )


def turnover(
    topology: str, options: dict[str, str], files: dict[str, str] | None = None
) -> Callable[[], int]:
    """The node is filled pod by pod, then emptied in another order, twice over.

    The text of the state files, with its checksum, is only made when there are `files`.
    """
    pods = [pod(number) for number in range(PODS)]
    machine = machine_of_text(MACHINE)

    def work() -> int:
        active: list[Pod] = []
        manager = ContainerManager(machine, policies(topology, options), active_pods=lambda: active)
        at_once(manager.start({}))
        for _ in range(2):
            for each in pods:
                active.append(each)
                decision = at_once(manager.admit(each), writes_to(files))
                assert decision.admitted, decision
            for each in (*pods[::2], *pods[1::2]):
                active.remove(each)
                at_once(manager.remove_stale_state(), writes_to(files))
        return 2 * PODS

    return work


def figure(name: str, repeat: int, work: Callable[[], int]) -> Row:
    """Milliseconds a pod, admission and removal together."""
    work()
    values = []
    for _ in range(repeat):
        taken, count = seconds(work)
        values.append(taken / count * 1000)
    return Row(name, "ms/pod", tuple(values))


def storm() -> int:
    """A hundred pods on a full node, each resized twenty times: up, down, or too far."""
    features = DEFAULTS
    pods = {f"p{number}": sized(f"p{number}", 2, 1) for number in range(100)}
    conditions = ResizeConditions()
    requests: dict[int, tuple[Pod, int]] = {}

    def cpus(pod: Pod) -> int:
        known = requests.get(id(pod))
        if known is None:
            known = requests[id(pod)] = (pod, pod_requests(pod)["cpu"].milli_value())
        return known[1]

    def admit(pod: Pod, others: Sequence[Pod], operation: str) -> Steps[Verdict]:
        yield from ()
        if cpus(pod) + sum(map(cpus, others)) <= 250_000:
            return ADMITTED
        return Decision(False, "OutOfcpu", "full")

    told: list[ResizeEvent] = []
    manager = AllocationManager(
        admit,
        conditions,
        KubeletView(lambda: list(pods.values()), features=features),
        pod_by_uid=pods.get,
        sync=lambda pod: None,
        record=told.append,
        now=lambda: len(told),
    )
    for pod in pods.values():
        at_once(manager.add_pod(pod))
    count = 0
    for turn in range(20):
        for number, uid in enumerate(pods):
            cpu = 2 + (turn + number) % 3 * (1 if number % 7 else 60)
            pods[uid] = sized(uid, cpu, turn + 2)
            if at_once(manager.update(pods[uid])) and number % 10 == 0:
                at_once(manager.retry("pod_updated"))
            count += 1
    assert told
    return count


def sized(uid: str, cpu: int, generation: int) -> Pod:
    amounts = {"cpu": str(cpu), "memory": "2Gi"}
    return Pod.from_tree(
        {
            "metadata": {"name": uid, "uid": uid, "generation": generation},
            "spec": {"containers": [{"name": "main", "resources": {"requests": amounts}}]},
        }
    )


def rows(repeat: int) -> Iterator[Row]:
    for topology in TOPOLOGY:
        work = turnover(topology, OPTIONS["packed"])
        yield figure(f"kubelet: admit and remove, {topology}", repeat, work)
    for name, options in OPTIONS.items():
        if options:
            work = turnover("best-effort", options)
            yield figure(f"kubelet: admit and remove, {name}", repeat, work)
    work = turnover("best-effort", {}, {})
    yield figure("kubelet: admit and remove, files written", repeat, work)
    yield rate("kubelet: resizes of 100 pods, tried every tenth", "resize/s", min(repeat, 2), storm)
