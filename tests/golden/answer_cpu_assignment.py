"""Which CPUs are taken of those that are available."""

from __future__ import annotations

from typing import Any

from controlplane.kubelet.cm.cpumanager.assignment import (
    AssignmentError,
    take_distributed,
    take_packed,
)
from controlplane.kubelet.cm.cpumanager.topology import CPUTopology, discover
from controlplane.kubelet.cm.cpuset import CPUSet
from tests.golden.kubelet_machines import machine_of


def _taken(topology: CPUTopology, query: Any) -> CPUSet:
    available = CPUSet.parse(query["available"])
    spread = query.get("spread", False)
    if query["algorithm"] == "distributed":
        return take_distributed(topology, available, query["n"], query["group"], spread=spread)
    align = query.get("uncore", False)
    return take_packed(topology, available, query["n"], spread=spread, align_uncore=align)


def answer(case: Any) -> Any:
    """All queries of one machine."""
    topology = discover(machine_of(case["machine"]))
    results = []
    for query in case["queries"]:
        try:
            results.append({"cpus": str(_taken(topology, query))})
        except AssignmentError as error:
            results.append({"error": str(error)})
    return {"results": results}
