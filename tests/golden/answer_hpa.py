"""The horizontal pod autoscaler: replica calculation, rules, whole syncs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.api.autoscaling import HorizontalPodAutoscaler
from controlplane.api.labels import parse
from controlplane.api.pod import Pod
from controlplane.api.times import SECOND
from controlplane.controllers.autoscaling.podautoscaler import calculator, rules
from controlplane.controllers.autoscaling.podautoscaler.calculator import Tolerances
from controlplane.controllers.autoscaling.podautoscaler.controller import (
    HorizontalPodAutoscalerController,
)
from controlplane.controllers.autoscaling.podautoscaler.metrics import (
    NO_CUSTOM,
    NO_EXTERNAL,
    NO_OBJECT,
    NO_RESOURCE,
    PodMetric,
)
from controlplane.controllers.common.effects import Reconcile, Retry
from tests.golden.controller_world import START, World, complete, outcome
from tests.golden.runner import difference


def answer(case: Any) -> Any:
    if "op" in case:
        return _calc(case)
    if "desiredReplicas" in case:
        return _rules(case)
    return _sync(case)


def compare(want: Any, got: Any) -> str | None:
    if "requests" in want:
        got = got(want.pop("anyOrder", ()))
    return difference(want, got)


def _measured(entries: Any) -> dict[str, PodMetric]:
    return {
        pod: PodMetric(each["value"], each["window"] * SECOND, START - each["age"] * SECOND)
        for pod, each in entries.items()
    }


def _calc(case: Any) -> Any:
    pods = [Pod.from_tree(complete("Pod", tree)) for tree in case["pods"]]
    pods = [pod for pod in pods if parse("app=a").matches(pod.labels)]
    tolerances = Tolerances(case["toleranceDown"], case["toleranceUp"])
    op, current, target = case["op"], case["currentReplicas"], case["target"]
    container, resource = case.get("container", ""), case.get("resource", "")
    metrics = case["metrics"]
    key = f"{resource}/{container}" if container else resource
    try:
        if op == "utilization":
            measured = _measured(metrics["resource"][key])
            found = calculator.by_utilization(
                current, target, resource, container, measured, pods, tolerances, START
            )
        elif op in {"raw", "pods"}:
            measured = _measured(metrics["resource"][key] if op == "raw" else metrics["pods"]["m"])
            found = calculator.by_usage(
                current, target, resource, measured, pods, tolerances, START
            )
        else:
            values = metrics.get("object", metrics.get("external"))["m"]
            usage = values if isinstance(values, int) else calculator.total(values)
            if op in {"object", "external"}:
                found = calculator.by_total(current, target, usage, pods, tolerances)
            else:
                found = calculator.by_share(current, target, usage, tolerances)
    except Retry as error:
        return {"error": str(error)}
    result = {"replicas": found.replicas, "usage": found.usage}
    if found.utilization is not None:
        result["utilization"] = found.utilization
    return result


def _stamped(entries: Any) -> list[rules.Stamped]:
    return [rules.Stamped(each["value"], START - each["age"] * SECOND) for each in entries or ()]


def _memory(case: Any) -> rules.Memory:
    return rules.Memory(
        _stamped(case.get("recommendations")),
        _stamped(case.get("scaleUpEvents")),
        _stamped(case.get("scaleDownEvents")),
    )


def _remembered(memory: rules.Memory) -> Any:
    def aged(entries: Sequence[rules.Stamped]) -> Any:
        return [{"value": each.value, "age": max(START - each.at, 0) // SECOND} for each in entries]

    found = {
        "recommendations": aged(memory.recommendations),
        "scaleUpEvents": aged(memory.ups),
        "scaleDownEvents": aged(memory.downs),
    }
    return {key: value for key, value in found.items() if value}


def _rules(case: Any) -> Any:
    memory = _memory(case)
    spec = {"behavior": case.get("behavior")}
    hpa = HorizontalPodAutoscaler.from_tree(
        complete("HorizontalPodAutoscaler", {"metadata": {}, "spec": spec})
    )
    current = case["currentReplicas"]
    bounds = rules.Bounds(
        current, case["desiredReplicas"], case["minReplicas"], case["maxReplicas"]
    )
    behavior = hpa.spec.behavior
    if behavior is None:
        found = rules.normalize(memory, bounds, START)
    else:
        found = rules.normalize_with_rules(memory, behavior, bounds, START)
    if found.replicas != current:
        rules.store_event(memory, behavior, current, found.replicas, START)
    conditions = [
        {
            "type": "AbleToScale",
            "status": "True",
            "reason": found.able[0],
            "message": found.able[1],
        },
        {
            "type": "ScalingLimited",
            "status": "True" if found.limited else "False",
            "reason": found.limit[0],
            "message": found.limit[1],
        },
    ]
    return {"replicas": found.replicas, "conditions": conditions, **_remembered(memory)}


class Recorded:
    """Metrics as the case has them."""

    def __init__(self, metrics: Any) -> None:
        self._metrics = metrics

    def _found(self, kind: str, name: str, missing: str) -> Any:
        found = self._metrics.get(kind, {}).get(name)
        if found is None:
            raise Retry(missing)
        return found

    def resource(
        self, name: str, _namespace: str, _selector: Any, container: str
    ) -> Reconcile[Any]:
        yield from ()
        key = f"{name}/{container}" if container else name
        return _measured(self._found("resource", key, NO_RESOURCE))

    def pods(self, metric: Any, _namespace: str, _selector: Any) -> Reconcile[Any]:
        yield from ()
        return _measured(self._found("pods", metric.name, NO_CUSTOM))

    def of_object(self, metric: Any, _namespace: str, _about: Any) -> Reconcile[int]:
        yield from ()
        found: int = self._found("object", metric.name, NO_OBJECT)
        return found

    def external(self, metric: Any, _namespace: str) -> Reconcile[Any]:
        yield from ()
        return self._found("external", metric.name, NO_EXTERNAL)


def _sync(case: Any) -> Any:
    main = case["hpa"]
    world = World(
        {"HorizontalPodAutoscaler": [main], "Pod": case["pods"]},
        case.get("failures", ()),
        START,
        case.get("gates"),
    )
    target = main["spec"]["scaleTargetRef"]
    if "scale" in case:
        scale = case["scale"]
        tree = {
            "metadata": {"name": target["name"], "namespace": "ns"},
            "spec": {"replicas": scale.get("specReplicas", 0)},
            "status": {
                "replicas": scale.get("statusReplicas", 0),
                "selector": scale.get("selector", ""),
            },
        }
        for kind in ("Deployment", "ReplicationController"):
            world.add_live(kind, tree)
    controller = HorizontalPodAutoscalerController(world, world.caches)
    controller.readings.metrics = Recorded(case["metrics"])
    world.fill()
    key = f"{main['metadata']['namespace']}/{main['metadata']['name']}"
    memory = _memory(case)
    if memory.recommendations or memory.ups or memory.downs:
        controller.memory[key] = memory
    controller.selectors[key] = parse("app=a")
    for other in case.get("otherHPAs", ()):
        controller.selectors[f"ns/{other['name']}"] = parse(other["selector"])
    hpa = HorizontalPodAutoscaler.from_tree(complete("HorizontalPodAutoscaler", main))
    error = world.attempt(controller.reconcile(hpa))
    world.requests[:] = [_request(each) for each in world.requests if each["verb"] != "get"]
    after = controller.memory.get(key)

    def found(any_order: Any) -> Any:
        result = outcome(world, error, "horizontalpodautoscaler", any_order)
        return {"recommendations": [], **result, **({} if after is None else _remembered(after))}

    return found


def _request(entry: Any) -> Any:
    if entry.get("subresource") != "scale":
        return entry
    body = entry.pop("object")
    return {**entry, "replicas": body["spec"]["replicas"]}
