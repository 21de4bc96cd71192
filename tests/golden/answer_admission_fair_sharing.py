"""Kueue: past usage of local queues, its decay, and the order that follows from it."""

from __future__ import annotations

import math
from typing import Any

from controlplane.api.quantity import parse
from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.usage import (
    Entry,
    FairSharing,
    Resources,
    decayed,
    entry_penalty,
    local_queue_weight,
    weighted,
)
from tests.golden.kueue_queues import Queues, key


def answer(case: Any) -> Any:
    config = case["config"]
    sharing = FairSharing(
        config["usageHalfLifeSeconds"],
        config["usageSamplingSeconds"],
        config.get("resourceWeights") or {},
    )
    return math_of(case, sharing) if case["op"] == "math" else order_of(case, sharing)


def math_of(case: Any, sharing: FairSharing) -> Any:
    a, b = amounts(case["a"]), amounts(case["b"])
    return {
        "decayed": texts(decayed(a, b, case["elapsedSeconds"], sharing.half_life)),
        "entryPenalty": texts(entry_penalty(a, sharing)),
        "usage": shown(weighted(a, b, case["weight"], sharing.weights)),
    }


def order_of(case: Any, sharing: FairSharing) -> Any:
    world = case["world"]
    queues = Queues(world, Gates(world.get("gates")), sharing=sharing)
    manager = queues.manager
    locals_ = {each["metadata"]["name"]: each for each in world["localQueues"]}
    for name, known in case["ledger"].items():
        local = key(locals_[name])
        manager.ledger.put(local, Entry(amounts(known.get("consumed") or {})))
        for workload, penalty in (known.get("penalties") or {}).items():
            manager.ledger.push_penalty(local, workload, amounts(penalty), queues.now)
    for each in world["workloads"]:
        queues.objects.stored["Workload"][key(each)] = each
        manager.add_or_update(each)
    popped = []
    while heads := manager.heads():
        for head in heads:
            popped.append(head.info.key)
            manager.delete(head.info.key)
    usage = {
        name: manager.ledger.usage(key(each), local_queue_weight(each), sharing.weights)
        for name, each in locals_.items()
    }
    return {"popped": popped, "usage": {name: shown(each) for name, each in usage.items()}}


def amounts(quantities: Any) -> Resources:
    return {name: parse(text) for name, text in quantities.items()}


def texts(resources: Resources) -> Any:
    return {name: str(each) for name, each in resources.items()}


def shown(value: float) -> Any:
    return "Inf" if math.isinf(value) else value
