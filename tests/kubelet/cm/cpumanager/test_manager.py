from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.api.pod import Pod
from controlplane.api.quantity import parse
from controlplane.decisions import Point, Write, at_once, writes_to
from controlplane.kubelet.cm.cpumanager.manager import CPUManager
from controlplane.kubelet.cm.cpumanager.state import FILE
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.cm.errors import ManagerError, SMTAlignmentError
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.manager import TopologyManager
from controlplane.kubelet.machine import from_rows
from tests.kubelet.pods import guaranteed

MACHINE = from_rows([(t * 4 + c, 0, 0, c, -1) for t in range(2) for c in range(4)])
"""Four cores with two threads each: (0,4) (1,5) (2,6) (3,7)."""


def manager(
    active: list[Pod], options: dict[str, str] | None = None, ready: bool = True
) -> CPUManager:
    return CPUManager(
        MACHINE,
        "static",
        TopologyManager(MACHINE.nodes),
        KubeletView(lambda: active, lambda: ready),
        options=options,
        reservation={"cpu": parse("1")},
    )


def started(
    active: list[Pod], options: dict[str, str] | None = None
) -> tuple[CPUManager, dict[str, str]]:
    files: dict[str, str] = {}
    cpus = manager(active, options)
    at_once(cpus.start(None), writes_to(files))
    return cpus, files


def admit(cpus: CPUManager, pod: Pod, files: dict[str, str] | None = None) -> None:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        at_once(cpus.allocate(pod, container), writes_to({} if files is None else files))


def assigned(cpus: CPUManager, uid: str) -> dict[str, str]:
    return {name: str(each) for name, each in cpus.state.assignments.get(uid, {}).items()}


def test_reuse_of_an_init_containers_cpus_is_allowed_and_not_enforced() -> None:
    """Upstream issue 112228: the node loses three CPUs where the scheduler counts two."""
    pods = [guaranteed(f"p{i}", "2", init=("1",)) for i in range(3)]
    cpus, _ = started(pods)
    for pod in pods:
        admit(cpus, pod)
    assert assigned(cpus, "p0") == {"i0": "4", "c0": "1,5"}
    assert assigned(cpus, "p1") == {"i0": "2", "c0": "2,6"}
    assert assigned(cpus, "p2") == {"i0": "3", "c0": "3,7"}
    assert str(cpus.state.default) == "0"


def test_a_sidecar_keeps_its_cpus() -> None:
    pod = guaranteed("p", "2", sidecars=("2",))
    cpus, _ = started([pod])
    admit(cpus, pod)
    assert assigned(cpus, "p") == {"s0": "1,5", "c0": "2,6"}


def test_the_default_set_shrinks_before_the_container_gets_its_cpus() -> None:
    """Upstream issue 84783: a crash between the two writes leaves CPUs that are neither shared nor assigned."""
    pod = guaranteed("p", "2")
    cpus, files = started([pod])
    steps = cpus.allocate(pod, pod.spec.containers[0])
    written = []
    for step in steps:
        if isinstance(step, Write):
            files[FILE] = step.content.text
            written.append(step)
            if len(written) == 1:
                break
    with pytest.raises(ManagerError, match='current set of available CPUs "0-7" doesn\'t match'):
        at_once(manager([pod]).start(files[FILE]))
    assert [isinstance(step, Write) for step in steps] == [True]


def test_other_tasks_may_run_between_stale_removal_and_allocation() -> None:
    pod = guaranteed("p", "2")
    cpus, _ = started([pod])
    steps = list(cpus.allocate(pod, pod.spec.containers[0]))
    assert [type(step) for step in steps] == [Point, Write, Write]


def test_only_stale_state_removal_frees_cpus_and_only_once_all_sources_were_heard() -> None:
    pod = guaranteed("p", "2")
    active = [pod]
    cpus, files = started(active)
    admit(cpus, pod, files)
    active.clear()
    restarted = manager(active, ready=False)
    at_once(restarted.start(files[FILE]), writes_to(files))
    at_once(restarted.remove_stale_state(), writes_to(files))
    assert assigned(restarted, "p") == {"c0": "1,5"}
    at_once(cpus.remove_stale_state(), writes_to(files))
    assert str(cpus.state.default) == "0-7"
    assert cpus.view.metrics.get("cpu_manager_exclusive_cpu_allocation_count") == 0


def test_metrics_count_requests_errors_and_pools() -> None:
    pod, other = guaranteed("p", "2"), guaranteed("q", "6")
    cpus, _ = started([pod, other])
    assert cpus.view.metrics.get("cpu_manager_shared_pool_size_millicores") == 7000
    admit(cpus, pod)
    with pytest.raises(ManagerError, match="requested=6, available=5"):
        admit(cpus, other)
    assert cpus.view.metrics.get("cpu_manager_pinning_requests_total") == 2
    assert cpus.view.metrics.get("cpu_manager_pinning_errors_total") == 1
    assert cpus.view.metrics.get("cpu_manager_shared_pool_size_millicores") == 5000
    assert cpus.view.metrics.get("cpu_manager_exclusive_cpu_allocation_count") == 2
    assert cpus.view.metrics.get("cpu_manager_allocation_per_numa", numa_node="0") == 2


def test_an_assigned_container_can_be_refused_for_its_alignment_after_a_restart() -> None:
    """The check comes first, and what the container has is not in the default set."""
    pod = guaranteed("p", "4")
    options = {"full-pcpus-only": "true"}
    cpus, files = started([pod], options)
    admit(cpus, pod, files)
    restarted = manager([pod], options)
    at_once(restarted.start(files[FILE]), writes_to(files))
    with pytest.raises(SMTAlignmentError, match="available physical CPUs = 2"):
        admit(restarted, pod)


def test_strict_reservation_takes_the_reserved_cpus_out_of_the_default_set() -> None:
    cpus, files = started([], {"strict-cpu-reservation": "true"})
    assert str(cpus.state.default) == "1-7"
    with pytest.raises(ManagerError, match="not all reserved cpus"):
        at_once(manager([]).start(files[FILE]))


def test_a_running_container_is_updated_once() -> None:
    pod, other = guaranteed("p", "2"), guaranteed("q", "1500m")
    cpus, _ = started([pod, other])
    admit(cpus, pod)
    cpus.add_container("p", "c0", "id1")
    running = {"p": "id1", "q": "id2"}
    updates = cpus.updates(lambda each, name: running[each.uid])
    assert [(each.pod_uid, str(each.cpus)) for each in updates] == [("q", "0,2-4,6-7")]
    cpus.applied(updates[0])
    assert cpus.updates(lambda each, name: running[each.uid]) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["1", "2", "3", "500m"]),
            st.sampled_from([(), ("1",), ("2",)]),
        ),
        max_size=12,
    ),
    st.sampled_from([None, {"full-pcpus-only": "true"}, {"distribute-cpus-across-numa": "true"}]),
)
def test_no_cpu_has_two_owners_and_none_is_lost(
    moves: list[tuple[int, str, tuple[str, ...]]], options: dict[str, str] | None
) -> None:
    """Pods come and go; a uid that is there leaves. At each moment the file starts a new kubelet."""
    active: list[Pod] = []
    cpus, files = started(active, options)
    for number, size, init in moves:
        there = [pod for pod in active if pod.uid == f"p{number}"]
        if there:
            active.remove(there[0])
            at_once(cpus.remove_stale_state(), writes_to(files))
        else:
            pod = guaranteed(f"p{number}", size, init=init)
            active.append(pod)
            try:
                admit(cpus, pod, files)
            except ManagerError:
                active.remove(pod)
                at_once(cpus.remove_stale_state(), writes_to(files))
        whole = cpus.state.default
        for pod_sets in cpus.state.assignments.values():
            own = CPUSet()
            for each in pod_sets.values():
                own |= each
            assert not whole & own
            whole |= own
        assert whole == CPUSet.parse("0-7")
        again = manager(active, options)
        at_once(again.start(files[FILE]))
        assert again.state == cpus.state
