"""Sets of CPUs and their notation."""

from __future__ import annotations

from typing import Any

from controlplane.kubelet.cm.cpuset import CPUSet, union


def _shown(cpus: CPUSet) -> Any:
    return {"empty": not cpus, "list": cpus.to_list(), "size": len(cpus), "string": str(cpus)}


def answer(case: Any) -> Any:
    """One operation."""
    op = case["op"]
    if op == "parse":
        try:
            return _shown(CPUSet.parse(case["s"]))
        except ValueError as error:
            return {"error": str(error)}
    if op == "new":
        return _shown(CPUSet.of(case["list"]))
    if op == "union":
        return {"string": str(union(map(CPUSet.parse, case["sets"])))}
    a = CPUSet.parse(case["a"])
    if op == "contains":
        return {"result": case["cpu"] in a}
    b = CPUSet.parse(case["b"])
    if op == "intersection":
        return {"string": str(a & b)}
    if op == "difference":
        return {"string": str(a - b)}
    return {"result": a == b if op == "equals" else a <= b}
