"""The descheduler: what may be evicted, what fits where, and whole passes."""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.labels import parse
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget
from controlplane.api.quantity import Quantity
from controlplane.api.quantity import parse as parse_quantity
from controlplane.api.times import format_time, parse_time
from controlplane.api.validation import aggregate
from controlplane.decisions import at_once
from controlplane.descheduler.default_evictor import DefaultEvictor, priority_threshold
from controlplane.descheduler.evictions import Eviction, Limits, Note, PodEvictor, Refusal
from controlplane.descheduler.metrics import Collector, amount_of, collects_usage
from controlplane.descheduler.node import (
    fits_any_other,
    misfit,
    requested_by,
    sort_low_priority_first,
)
from controlplane.descheduler.policy import decoded, with_defaults
from controlplane.descheduler.profiles import build, run_pass
from controlplane.descheduler.validation import PolicyError, check_threshold
from controlplane.descheduler.world import World, is_ready, key_of
from tests.golden.runner import UNANSWERED, difference


def world_of(case: Any) -> World:
    return World(
        now=parse_time(case["now"]),
        nodes=[Node.from_tree(each) for each in case.get("nodes", ())],
        pods=[Pod.from_tree(each) for each in case.get("pods", ())],
        namespaces={
            each["metadata"]["name"]: each["metadata"].get("labels", {})
            for each in case.get("namespaces", ())
        },
        budgets=[
            PodDisruptionBudget.from_tree(each) for each in case.get("podDisruptionBudgets", ())
        ],
        claims={
            (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"].get(
                "storageClassName", ""
            )
            for each in case.get("persistentVolumeClaims", ())
        },
    )


def classes_of(case: Any) -> dict[str, int]:
    return {each["metadata"]["name"]: each["value"] for each in case.get("priorityClasses", ())}


def answer(case: Any) -> Any:
    answers = {
        "evictor": evictor,
        "nodefit": nodefit,
        "sort": order,
        "pass": passes,
        "policy": policy,
    }
    answer_one = answers.get(case["kind"])
    return UNANSWERED if answer_one is None else answer_one(case)


def policy(case: Any) -> Any:
    classes = classes_of(case)
    try:
        filled = with_defaults(decoded(case["policy"]), classes)
    except (PolicyError, ValueError) as error:
        return {"error": str(error)}
    shown = {**filled, "profiles": None}
    if filled.get("profiles"):
        shown["profiles"] = [
            {
                **each,
                "plugins": {
                    point: {key: names for key, names in chosen.items() if names}
                    for point, chosen in each["plugins"].items()
                    if any(chosen.values())
                },
            }
            for each in filled["profiles"]
        ]
    try:
        parse(filled.get("nodeSelector") or "")
        built = PodEvictor(Limits(), lambda _: None)
        for each in filled.get("profiles") or ():
            build(each, World(), built, classes)
    except ValueError as error:
        return {"policy": shown, "buildError": str(error)}
    return {"policy": shown}


def evictor(case: Any) -> Any:
    args = dict(case["args"])
    if text := check_threshold(args):
        return {"error": text}
    try:
        threshold = priority_threshold(args, classes_of(case))
    except ValueError as error:
        return {"error": str(error)}
    args["priorityThreshold"] = {"value": threshold}
    world = world_of(case)
    plugin = DefaultEvictor(world, args)
    shown = []
    for pod in world.pods:
        one: dict[str, Any] = {
            "filter": plugin.filter(pod),
            "preEvictionFilter": plugin.pre_eviction_filter(pod),
        }
        if reasons := plugin.reasons(pod):
            one["checks"] = aggregate(reasons)
        shown.append(one)
    return {"pods": shown, "priorityThreshold": threshold}


def nodefit(case: Any) -> Any:
    world = world_of(case)
    shown = []
    for pod in world.pods:
        misfits = {node.metadata.name: misfit(world, pod, node) for node in world.nodes}
        one: dict[str, Any] = {"fitsAnyOtherNode": fits_any_other(world, pod, world.nodes)}
        one["misfits"] = {name: text for name, text in misfits.items() if text}
        shown.append(one)
    utilization = {}
    for node in world.nodes:
        pods = world.running_on(node.metadata.name)
        used = requested_by(pods)
        shown_names = dict.fromkeys(("cpu", "memory", *node.status.allocatable))
        one = {}
        for name in shown_names:
            amount = used.get(name, Quantity.new(0))
            one[name] = amount.milli_value() if name == "cpu" else amount.value()
        utilization[node.metadata.name] = {**one, "pods": len(pods)}
    return {"pods": shown, "utilization": utilization}


def order(case: Any) -> Any:
    pods = list(world_of(case).pods)
    sort_low_priority_first(pods)
    return {"order": [key_of(pod) for pod in pods]}


def passes(case: Any) -> Any:
    try:
        policy = decoded(case["policy"])
    except PolicyError as error:
        return {"error": str(error)}
    world = world_of(case)
    measure(case, policy, world)
    notes: list[Note] = []
    limits = Limits(
        policy.get("maxNoOfPodsToEvictPerNode"),
        policy.get("maxNoOfPodsToEvictPerNamespace"),
        policy.get("maxNoOfPodsToEvictTotal"),
    )
    evictor = PodEvictor(
        limits,
        notes.append,
        policy.get("gracePeriodSeconds"),
        bool(policy.get("evictionFailureEventNotification")),
    )
    classes = classes_of(case)
    try:
        profiles = [build(each, world, evictor, classes) for each in policy["profiles"]]
    except ValueError as error:
        return {"buildError": str(error)}
    failures: list[Any] = []
    selector = parse(policy.get("nodeSelector") or "")
    nodes = [each for each in world.nodes if selector.matches(each.metadata.labels)]
    server = Server(case, world)
    evicted = []
    for _ in range(case.get("passes", 1)):
        at_once(
            run_pass(
                profiles,
                nodes,
                evictor,
                lambda profile, error: failures.append({"profile": profile, "error": error}),
            ),
            server.evict,
        )
        evicted.append(evictor.total)
    if sum(is_ready(node) for node in nodes) < 2:
        return {"evicted": None, "evictions": [], "skipped": True}
    found: dict[str, Any] = {"evicted": evicted, "evictions": server.evictions}
    if failures:
        found["pluginErrors"] = failures
    if notes:
        found["events"] = [
            {
                "action": each.action,
                "note": each.note,
                "pod": key_of(each.pod),
                "reason": each.reason,
                "type": each.type,
            }
            for each in notes
        ]
    return found


def measure(case: Any, policy: Any, world: World) -> None:
    """Let the world have the metrics of the case."""

    def amounts(used: Any) -> dict[str, int]:
        return {name: amount_of(name, parse_quantity(text)) for name, text in used.items()}

    if collects_usage(policy):
        collector = Collector()
        for number in case.get("nodeMetrics", ()):
            collector.collect({node: amounts(used) for node, used in number.items()})
        world.collected = collector.nodes
    pods = case.get("podMetrics") or {}

    def pod_usage(pod: Pod) -> Any:
        found = pods.get(key_of(pod))
        return None if found is None else {name: amounts(used) for name, used in found.items()}

    world.pod_usage = pod_usage
    answer = case.get("prometheus", "none")
    world.prometheus = lambda: None if answer == "none" else answer


class Server:
    """Answers evictions as the case says, and changes the caches as the case says."""

    def __init__(self, case: Any, world: World) -> None:
        self._errors = case.get("evictionErrors", {})
        self._cache = case.get("cache")
        self._world = world
        self.evictions: list[Any] = []

    def evict(self, asked: Eviction) -> Refusal | None:
        key = key_of(asked.pod)
        shown: dict[str, Any] = {"pod": key, "by": asked.by}
        if asked.grace_period_seconds is not None:
            shown["gracePeriodSeconds"] = asked.grace_period_seconds
        self.evictions.append(shown)
        if key in self._errors:
            error = self._errors[key]
            text = error["message"]
            if error["code"] == 404:
                text = f'pods "{asked.pod.metadata.name}" not found'
            elif error["code"] == 500:
                text = f"Internal error occurred: {text}"
            shown["error"] = text
            return Refusal(error["code"], text)
        self._change(key)
        return None

    def _change(self, key: str) -> None:
        if self._cache is None:
            return
        pods = []
        for pod in self._world.pods:
            if key_of(pod) != key:
                pods.append(pod)
            elif self._cache == "terminating":
                tree = dict(pod.tree)
                now = format_time(self._world.now)
                tree["metadata"] = {**tree["metadata"], "deletionTimestamp": now}
                pods.append(Pod.from_tree(tree))
        self._world.pods = pods


def compare(want: Any, got: Any) -> str | None:
    """Compare a pass; where upstream's order is that of its maps, as multisets."""
    if isinstance(want, dict) and want.get("anyOrder"):
        want = {key: each for key, each in want.items() if key != "anyOrder"}
        for name in ("evictions", "events"):
            if name in got:
                got = {**got, name: sorted(got[name], key=_text)}
                want = {**want, name: sorted(want.get(name, ()), key=_text)}
    return difference(want, got)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
