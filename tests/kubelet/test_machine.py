from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.errors import UsageError
from controlplane.kubelet.cm.cpumanager.topology import discover
from controlplane.kubelet.machine import PRESETS, machine_of_lscpu, machine_of_text

GI = 1 << 30


def test_siblings_come_last_unless_said_otherwise() -> None:
    topology = discover(machine_of_text("cores=4 threads=2"))
    assert [f"{mask:b}" for mask in topology.cores.values()][:2] == ["10001", "100010"]
    adjacent = discover(machine_of_text("cores=4 threads=2 numbering=siblings-adjacent"))
    assert [f"{mask:b}" for mask in adjacent.cores.values()][:2] == ["11", "1100"]


def test_amounts_are_per_numa_node() -> None:
    machine = machine_of_text("sockets=2 numa=2 cores=4 caches=2 memory=8Gi hugepages-2Mi=512")
    assert machine.num_cpus == 16
    assert machine.memory == 32 * GI
    assert [node.huge_pages[0].total for node in machine.nodes] == [GI] * 4
    assert len(discover(machine).uncores) == 8
    assert machine.nodes[0].distances == (10, 12, 32, 32)


def test_without_reported_caches_the_socket_stands_in() -> None:
    topology = discover(machine_of_text("sockets=2 cores=4 caches=0"))
    assert topology.uncores == topology.sockets


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_machine(name: str) -> None:
    machine = machine_of_text(name)
    assert len(discover(machine).all_cpus) == machine.num_cpus


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 2))
def test_every_cpu_has_one_place(sockets: int, numa: int, cores: int, threads: int) -> None:
    text = f"sockets={sockets} numa={numa} cores={cores} threads={threads}"
    topology = discover(machine_of_text(text))
    count = sockets * numa * cores * threads
    assert topology.all_cpus.to_list() == list(range(count))
    for parts in (topology.numas, topology.sockets, topology.cores, topology.uncores):
        assert sum(mask.bit_count() for mask in parts.values()) == count


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cores=0", "'cores=0': expected a number of 1 or more"),
        ("memory=much", "'memory=much': expected an amount such as 16Gi"),
        ("huge", "'huge' is neither one of sockets, numa"),
        ("numbering=odd", "'numbering=odd' is neither one of"),
        ("hugepages-3=1", "pages are whole KiB"),
    ],
)
def test_a_text_that_is_no_machine_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        machine_of_text(text)


PARSABLE = """# The following is the parsable format, which can be fed to other programs.
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
0,0,0,0,,0,0,0,0
1,1,1,1,,1,1,1,1
2,0,0,0,,0,0,0,0
3,1,1,1,,1,1,1,1
"""
TABLE = """CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE
  0    0      0    0 0:0:0:0          yes
  1    1      1    1 1:1:1:1          yes
  2    0      0    0 0:0:0:0          yes
  3    1      1    1 1:1:1:1          yes
  4    -      -    - -                 no
"""


@pytest.mark.parametrize("text", [PARSABLE, TABLE])
def test_what_lscpu_prints_is_read(text: str) -> None:
    machine = machine_of_lscpu(text, 8 * GI)
    topology = discover(machine)
    assert (machine.num_sockets, machine.num_cpus, topology.num_cores) == (2, 4, 2)
    assert topology.numas == {0: 0b0101, 1: 0b1010}
    assert [node.memory for node in machine.nodes] == [4 * GI, 4 * GI]


@pytest.mark.parametrize("text", ["", "Architecture: x86_64", "CPU NODE\nx 0"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="machine: "):
        machine_of_lscpu(text, GI)
