from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kubelet.cm.cpumanager.assignment import (
    AssignmentError,
    take_distributed,
    take_packed,
)
from controlplane.kubelet.cm.cpumanager.topology import CPUTopology, TopologyError, discover
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.machine import Core, Machine, NUMANode, from_rows


def machine(sockets: int, numas: int, cores: int, threads: int) -> CPUTopology:
    """Siblings are numbered after all cores, as Linux does."""
    total = sockets * numas * cores
    rows = [
        (thread * total + core, core // cores, core // (cores * numas), core, core // cores)
        for thread in range(threads)
        for core in range(total)
    ]
    return discover(from_rows(rows))


SHAPES = st.builds(
    machine, st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.integers(1, 2)
)


@given(SHAPES, st.data())
def test_exactly_what_was_asked_for_is_taken_from_what_is_available(
    topology: CPUTopology, data: st.DataObject
) -> None:
    every = topology.all_cpus.to_list()
    available = CPUSet.of(data.draw(st.lists(st.sampled_from(every), unique=True)))
    count = data.draw(st.integers(0, len(available)))
    spread = data.draw(st.booleans())
    ways = [
        take_packed(
            topology, available, count, spread=spread, align_uncore=data.draw(st.booleans())
        ),
        take_distributed(topology, available, count, 1, spread=spread),
    ]
    for taken in ways:
        assert taken <= available
        assert len(taken) == count


@given(SHAPES, st.integers(1, 30))
def test_more_than_there_is_cannot_be_taken(topology: CPUTopology, surplus: int) -> None:
    available = topology.all_cpus
    wanted = len(available) + surplus
    with pytest.raises(AssignmentError) as error:
        take_packed(topology, available, wanted)
    assert str(error.value) == (
        "not enough cpus available to satisfy request: "
        f"requested={wanted}, available={len(available)}"
    )


def test_a_core_is_kept_together_unless_they_are_to_be_spread() -> None:
    topology = machine(1, 1, 4, 2)
    assert str(take_packed(topology, topology.all_cpus, 2)) == "0,4"
    assert str(take_packed(topology, topology.all_cpus, 2, spread=True)) == "0-1"


def test_a_cache_is_kept_together_when_asked_for() -> None:
    rows = [(cpu, 0, 0, cpu, cpu // 4) for cpu in range(16)]
    topology = discover(from_rows(rows))
    assert str(take_packed(topology, CPUSet.parse("2-15"), 6, align_uncore=True)) == "2-7"


def test_a_share_is_even() -> None:
    topology = machine(2, 1, 6, 1)
    assert str(take_distributed(topology, topology.all_cpus, 8, 1)) == "0-3,6-9"


def test_a_search_that_never_ends_upstream_is_reported() -> None:
    """Four nodes of three cores with two threads, one thread of each gone: 20 CPUs, but 16 in pairs."""
    rows = [
        (2 * core + thread, core // 3, 0, 2 * core, -1) for core in range(12) for thread in range(2)
    ]
    topology = discover(from_rows(rows))
    available = topology.all_cpus - CPUSet.of([0, 6, 12, 18])
    with pytest.raises(AssignmentError, match="upstream does not end here"):
        take_distributed(topology, available, 14, 2)


def test_odd_machines_are_refused() -> None:
    with pytest.raises(TopologyError, match="could not detect number of cpus"):
        discover(Machine((), 1, 0))
    with pytest.raises(TopologyError, match="no cpus provided"):
        discover(Machine((NUMANode(0, cores=(Core(0, 0, ()),)),), 1, 4))
    with pytest.raises(TopologyError, match="cpus provided are not unique"):
        discover(Machine((NUMANode(0, cores=(Core(0, 0, (1, 1)),)),), 1, 4))


def test_all_threads_of_a_core_go_together() -> None:
    topology = machine(1, 1, 4, 2)
    assert str(topology.cores_with(CPUSet.of([1, 6]))) == "1-2,5-6"
    with pytest.raises(TopologyError, match="unknown CPU ID: 9"):
        topology.cores_with(CPUSet.of([9]))
