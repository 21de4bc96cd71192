"""Selectors of devices: compilation, estimated and actual costs, and matches."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.custom.cel import CelError
from controlplane.apiserver.kinds.custom.cel.metering import Meter
from controlplane.apiserver.kinds.resource.device_expressions import (
    COST_LIMIT,
    CompileError,
    device_selector,
)


def answer(case: Any) -> Any:
    lists = case["features"]["ListTypeAttributes"]
    return {"results": [_result(case, source, lists) for source in case["expressions"]]}


def _result(case: Any, source: str, lists: bool) -> dict[str, Any]:
    try:
        selector = device_selector(source, lists)
    except CompileError as error:
        return {"compileError": str(error), "errorType": error.kind}
    shown: dict[str, Any] = {"maxCost": selector.max_cost}
    meter = Meter(COST_LIMIT)
    try:
        shown["match"] = selector.matches(case["driver"], case["device"], meter)
    except CelError as error:
        shown["error"] = str(error)
    if not shown.get("error", "").startswith("attribute "):  # nothing was evaluated
        shown["cost"] = meter.spent
    return shown
