"""Answers of the Cluster Autoscaler's decisions, by our code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from controlplane.api.apps import DaemonSet
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget
from controlplane.api.times import parse_time
from controlplane.autoscaler import balancing, estimator, expander
from controlplane.autoscaler.backoff import Backoff, Failure
from controlplane.autoscaler.budgets import RemainingBudgets
from controlplane.autoscaler.drain import Controllers, Draining, pods_to_move
from controlplane.autoscaler.groups import (
    Cloud,
    GroupOptions,
    Instance,
    NodeGroup,
    Option,
    Template,
    gpu_resource,
)
from controlplane.autoscaler.options import DeleteOptions, Options
from controlplane.autoscaler.planner import Ongoing, Planner
from controlplane.autoscaler.pods import equivalence_groups
from controlplane.autoscaler.removal import Placement, Unremovable, try_removal
from controlplane.autoscaler.scaleup import Outcome, Situation, scale_up
from controlplane.autoscaler.simulation import Simulation
from controlplane.autoscaler.state import ClusterState, Counts
from controlplane.autoscaler.templates import Templates
from controlplane.autoscaler.utilization import Utilization, eligible, utilization
from controlplane.decisions import at_once, immediate
from tests.golden.autoscaler_loop import World, read_status
from tests.golden.runner import UNANSWERED, difference

Case = dict[str, Any]
GPU_LABEL: Final = "golden/accelerator"
SECOND: Final = 10**9


def answer(case: Case) -> Any:
    """The answer for one case of any file of the area."""
    chosen = ANSWERS.get(case["kind"])
    return UNANSWERED if chosen is None else chosen(case)


def compare(want: Any, given: Any) -> str | None:
    """Return the first difference; an absent list is an empty one."""
    if isinstance(given, dict) and given.get("kind") == "runonce":
        want, given = _loops(given, want)
    return difference(_plain(want), _plain(given))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value] or None
    if isinstance(value, dict):
        plain = {key: _plain(each) for key, each in value.items()}
        return {key: each for key, each in plain.items() if each is not None}
    return value


# -- what a case holds -------------------------------------------------------------------------


def pods_of(trees: Any) -> tuple[Pod, ...]:
    """Pods of a list of trees, or of none."""
    return tuple(Pod.from_tree(tree) for tree in trees or ())


def template_of(tree: Case) -> Template | None:
    """The template of a group."""
    if "template" not in tree:
        return None
    return Template(Node.from_tree(tree["template"]), pods_of(tree.get("templatePods")))


def group_of(tree: Case) -> NodeGroup:
    """A node group; members are running instances."""
    members = [Instance(name) for name in tree.get("nodes") or ()]
    return NodeGroup(
        tree["id"],
        tree.get("min", 0),
        tree.get("max", 0),
        tree.get("target", 0),
        template_of(tree),
        (*members, *(instance_of(each) for each in tree.get("instances") or ())),
        options_of(tree.get("options") or {}),
    )


def instance_of(tree: Case) -> Instance:
    """A further instance of a group."""
    return Instance(
        tree.get("id") or tree["name"],
        tree.get("state", "Running"),
        tree.get("errorClass", ""),
        tree.get("errorCode", ""),
        tree.get("errorMessage", ""),
    )


def options_of(tree: Case) -> GroupOptions:
    """The options that a group sets."""
    seconds = tree.get("scaleDownUnneededSeconds")
    return GroupOptions(
        utilization_threshold=tree.get("scaleDownUtilizationThreshold"),
        unneeded_time=None if seconds is None else seconds * SECOND,
        ignore_daemon_sets_utilization=tree.get("ignoreDaemonSetsUtilization"),
        zero_or_max=bool(tree.get("zeroOrMaxNodeScaling")),
    )


def groups_of(case: Case) -> list[NodeGroup]:
    """The groups of a case, in the provider's order."""
    return [group_of(tree) for tree in case.get("groups") or ()]


def market_of(case: Case) -> expander.Market:
    """Templates, prices and priorities of a case."""
    groups = groups_of(case)
    price = case.get("podPrice") or {}
    prices = {each["id"]: each.get("pricePerHour", 0.0) for each in case.get("groups") or ()}
    return expander.Market(
        {each.id: each.template for each in groups if each.template is not None},
        expander.Prices(prices, price.get("cpu", 0.0), price.get("memoryGiB", 0.0)),
        case.get("priorities"),
        GPU_LABEL,
    )


# -- expander and balancing ----------------------------------------------------------------------


def _expander(case: Case) -> Case:
    options = [
        Option(each["group"], each["nodeCount"], pods_of(each.get("pods")))
        for each in case["expansionOptions"]
    ]
    steps = expander.narrowed(case["expanders"], market_of(case), options)
    return {"remaining": [[f"{each.group}:{each.node_count}" for each in step] for step in steps]}


def _similar(case: Case) -> Case:
    groups = groups_of(case)
    told = case["ratios"]
    ratios = balancing.Ratios(told["memory"], told["free"], told["allocatable"])
    templates = {each.id: each.template for each in groups if each.template is not None}
    ignored = told["ignoredLabels"] or ()
    rows = [
        "".join(
            str(int(balancing.alike(templates[one.id], templates[two.id], ratios, ignored)))
            for two in groups
        )
        for one in groups
    ]
    found = balancing.similar_groups(groups[0].id, groups, templates, ratios, ignored)
    return {"similar": rows, "similarToFirst": [each.id for each in found]}


def _balance(case: Case) -> Case:
    made = balancing.balance(groups_of(case), case["newNodes"])
    return {"infos": [info_json(each) for each in made]}


def info_json(info: balancing.ScaleUpInfo) -> Case:
    """The new size of a group as the cases write it."""
    return {"current": info.current, "group": info.group, "max": info.maximum, "new": info.new}


# -- estimator -----------------------------------------------------------------------------------


def nodes_of(case: Case) -> list[Node]:
    """The nodes of a case."""
    return [Node.from_tree(tree) for tree in case.get("nodes") or ()]


def simulation_of(case: Case) -> Simulation:
    """The cluster of a case as the simulation holds it."""
    simulation = Simulation()
    simulation.set_cluster(nodes_of(case), pods_of(case.get("pods")))
    return simulation


def _estimate(case: Case) -> Case:
    simulation = simulation_of(case)
    template = template_of(case)
    assert template is not None
    limits = [case.get("maxNodes", 0)]
    groups = groups_of(case)
    if groups:
        limits.append(estimator.group_limit(groups[0], groups[1:]))
    if "maxNodesTotal" in case:
        limits.append(estimator.cluster_limit(case["maxNodesTotal"], len(simulation.names())))
    nodes, pods = estimator.estimate(
        simulation,
        [pods_of(each) for each in case["podGroups"]],
        template,
        estimator.Limiter(limits),
        fast_path=bool(case.get("fastpath")),
    )
    return {"nodes": nodes, "pods": [pod.key for pod in pods]}


def _pod_groups(case: Case) -> Case:
    groups = [
        [pod.key for pod in each] for each in equivalence_groups(pods_of(case["pendingPods"]))
    ]
    return {"groups": sorted(groups, key=" ".join)}


# -- scale-down ----------------------------------------------------------------------------------

KINDS: Final = {
    "replicaSets": "ReplicaSet",
    "replicationControllers": "ReplicationController",
    "statefulSets": "StatefulSet",
    "daemonSets": "DaemonSet",
    "jobs": "Job",
}


def controllers_of(case: Case) -> Controllers:
    """The controllers of a case, with their replicas."""
    return Controllers(
        {
            kind: {
                (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each.get(
                    "spec", {}
                ).get("replicas")
                for each in case.get(field) or ()
            }
            for field, kind in KINDS.items()
        }
    )


def delete_options_of(case: Case) -> DeleteOptions:
    """Which pods keep nodes in a case."""
    tree = case.get("deleteOptions")
    if tree is None:
        return DeleteOptions()
    return DeleteOptions(
        tree["SkipNodesWithSystemPods"],
        tree["SkipNodesWithLocalStorage"],
        tree["SkipNodesWithCustomControllerPods"],
        tree["MinReplicaCount"],
        tree["BspDisruptionTimeout"],
    )


def budgets_of(case: Case) -> RemainingBudgets:
    """The budgets of disruption of a case."""
    trees = case.get("podDisruptionBudgets") or ()
    return RemainingBudgets(PodDisruptionBudget.from_tree(tree) for tree in trees)


def draining_of(case: Case) -> Draining:
    """The input of the drain rules in a case."""
    return Draining(
        delete_options_of(case), budgets_of(case), controllers_of(case), parse_time(case["now"])
    )


def cloud_of(case: Case) -> Cloud:
    """The provider of a case."""
    members = {
        name: each["id"] for each in case.get("groups") or () for name in each.get("nodes") or ()
    }
    return Cloud(tuple(groups_of(case)), members, GPU_LABEL)


def limits_of(case: Case) -> dict[str, tuple[int, int]]:
    """The limits of the cluster in a case, least and most."""
    return {
        "cpu": (case.get("coresMin", 0), case.get("coresMax", 1 << 62)),
        "memory": (0, case.get("memoryMax", 1 << 62)),
    }


def options_from(case: Case) -> Options:
    """The options of a case."""
    tree = case.get("autoscalingOptions") or {}
    return Options(
        ignore_daemon_sets_utilization=bool(tree.get("ignoreDaemonSetsUtilization")),
        ignore_mirror_pods_utilization=bool(tree.get("ignoreMirrorPodsUtilization")),
        scale_down_unready=bool(tree.get("scaleDownUnreadyEnabled", True)),
        deletions=delete_options_of(case),
        limits=limits_of(case),
        balance_similar=bool(case.get("balanceSimilar")),
        expanders=tuple(case.get("expanders") or ()),
        max_nodes=case.get("maxNodesTotal", 0),
    )


def _number(value: float) -> Any:
    return "NaN" if value != value else value


def used_json(used: Utilization | None) -> Case:
    """A utilization as the cases write it."""
    if used is None:
        return {"error": True}
    return {
        "cpu": _number(used.cpu),
        "gpu": _number(used.gpu),
        "memory": _number(used.memory),
        "resource": used.resource,
        "utilization": _number(used.value),
    }


def _utilization(case: Case) -> Case:
    now = parse_time(case["now"])
    return {
        "utilization": {
            placed.node.metadata.name: used_json(
                utilization(
                    placed,
                    gpu_resource(placed.node, GPU_LABEL),
                    now,
                    skip_daemon_sets=case["skipDaemonSets"],
                    skip_mirror=case["skipMirror"],
                )
            )
            for placed in simulation_of(case).nodes()
        }
    }


def _drain(case: Case) -> Case:
    told: Case = {}
    for placed in simulation_of(case).nodes():
        moves = pods_to_move(placed.pods, draining_of(case))
        found: Case = {
            "pods": [pod.key for pod in moves.pods],
            "daemonSetPods": [pod.key for pod in moves.daemon_set_pods],
            "onCompletionPods": [pod.key for pod in moves.on_completion],
        }
        if moves.blocking is not None and moves.verdict is not None:
            found["blockingPod"] = moves.blocking.key
            found["reason"] = moves.verdict.reason
            # Upstream prints the address of the number here, and the case does not hold it.
            found["error"] = re.sub(r"spec: \d+ min", "spec: <address> min", moves.verdict.message)
        told[placed.node.metadata.name] = {key: value for key, value in found.items() if value}
    return {"nodes": told}


def unremovable_json(found: Unremovable) -> Case:
    """A node that cannot go as the cases write it."""
    made: Case = {"node": found.node, "reason": found.reason}
    if found.pod is not None:
        made |= {"pod": found.pod.key, "podReason": found.pod_reason}
    return made


def _removal(case: Case) -> Case:
    simulation, draining = simulation_of(case), draining_of(case)
    found = eligible(
        simulation, cloud_of(case), options_from(case), case["candidates"], draining.now
    )
    placement, left, told = Placement(), dict.fromkeys(case["destinations"]), list[Case]()
    for name in found.names:
        tried = try_removal(simulation, placement, name, left, draining)
        if isinstance(tried, Unremovable):
            told.append(unremovable_json(tried))
            continue
        left.pop(name, None)
        told.append(
            {
                "node": name,
                "removable": True,
                "risky": tried.risky,
                "podsToReschedule": [pod.key for pod in tried.pods],
                "daemonSetPods": [pod.key for pod in tried.daemon_set_pods],
            }
        )
    return {
        "eligible": list(found.names),
        "ineligible": [{"node": name, "reason": reason} for name, reason in found.refused],
        "simulated": told,
        "utilization": {name: used_json(used) for name, used in found.utilization.items()},
    }


# -- cluster state -------------------------------------------------------------------------------


def _backoff(case: Case) -> Case:
    now = 0
    names = ("initialBackoffSeconds", "maxBackoffSeconds", "resetSeconds")
    backoff = Backoff(*(case[name] * SECOND for name in names))
    steps: list[Case] = []
    for op in case["ops"]:
        at, kind, told = now + op["at"] * SECOND, op["op"], Case()
        if kind == "backoff":
            failure = Failure(op["errorClass"], op["errorCode"])
            told["until"] = (backoff.fail(op["group"], failure, at) - now) // SECOND
        elif kind == "status":
            found = backoff.status(op["group"], at)
            told["backedOff"] = found is not None
            if found is not None:
                told["code"] = found.code
        elif kind == "remove":
            backoff.remove(op["group"])
        else:
            backoff.remove_stale(at)
        steps.append(told)
    return {"steps": steps}


COUNTS: Final = {
    "deleted": "deleted",
    "longUnregistered": "long_unregistered",
    "notStarted": "not_started",
    "ready": "ready",
    "registered": "registered",
    "suspended": "suspended",
    "unready": "unready",
    "unregistered": "unregistered",
}


def _cluster_state(case: Case) -> Case:
    now = parse_time(case["now"])
    groups = {each["id"]: each for each in case["groups"]}
    nodes = {each["metadata"]["name"]: each for each in case.get("nodes") or ()}
    calls: list[Case] = []

    def decrease(group: str, size: int) -> str:
        calls.append({"call": "decrease", "delta": -size, "group": group})
        groups[group] = {**groups[group], "target": groups[group]["target"] - size}
        return ""

    # The registry of these cases is not among the listeners of its own failures.
    state = ClusterState(Options(), Backoff(), immediate(decrease), notify=lambda *_: None)
    steps: list[Case] = []
    for op in case["ops"]:
        at = now + op["at"] * SECOND
        for each in op.get("groups") or ():
            groups[each["id"]] = each
        for each in op.get("updateNodes") or ():
            nodes[each["metadata"]["name"]] = each
        if op["op"] == "scaleUp":
            state.scale_up(group_of(groups[op["group"]]), op["delta"], at)
        if op["op"] == "failedScaleUp":
            state.fail(op["group"], Failure("Other", op["errorCode"]), at)
        state.refresh_instances()
        cloud = cloud_of({"groups": list(groups.values())})
        at_once(state.update(cloud, [Node.from_tree(each) for each in nodes.values()], at))
        steps.append(_state_view(state, groups, at, now))
        if calls:
            steps[-1]["calls"] = list(calls)
            calls.clear()
    return {"steps": steps}


def _state_view(state: ClusterState, groups: Case, at: int, now: int) -> Case:
    views: Case = {}
    for name in groups:
        failure = state.failure_of(name, at)
        view = views[name] = {
            "atTarget": state.at_target(name),
            "backedOff": failure is not None,
            "healthy": state.group_healthy(name),
            "safe": state.safety(name, at).safe,
            "scalingUp": state.scaling_up(name),
            # Upstream asks the machine's clock here, which stood before the times of the cases.
            "upcoming": state.upcoming(0).get(name, 0),
        }
        if failure is not None:
            view["backoffCode"] = failure.code
        wrong = state.wrong_sizes.get(name)
        if wrong is not None:
            since = (wrong.since - now) // SECOND
            told = {"current": wrong.current, "expected": wrong.expected, "since": since}
            view["incorrectSize"] = told
    return {
        "createdWithErrors": state.created_with_errors(),
        "groups": views,
        "healthy": state.healthy,
        "readiness": _counts_json(state.total),
        "unregistered": sorted(each.name for each in state.unregistered),
    }


def _counts_json(counts: Counts) -> Case:
    return {name: list(getattr(counts, field)) for name, field in COUNTS.items()}


# -- planner -------------------------------------------------------------------------------------


def _planner(case: Case) -> Case:
    simulation, cloud = simulation_of(case), cloud_of(case)
    planner, draining = Planner(options_from(case)), draining_of(case)
    names = [each["metadata"]["name"] for each in case.get("nodes") or ()]
    start, steps = parse_time(case["now"]), list[Case]()
    for op in case["ops"]:
        draining = replace(draining, now=start + op["at"] * SECOND)
        planner.update(simulation, cloud, draining, names, names, Ongoing())
        found = planner.to_delete(simulation, cloud, Ongoing())
        steps.append(
            {
                "empty": [node.metadata.name for node in found.empty],
                "drain": [node.metadata.name for node in found.drained],
                "unneeded": [each.removable.node.metadata.name for each in planner.unneeded],
                "unremovable": [unremovable_json(each) for each in planner.unremovable],
            }
        )
    return {"steps": steps}


# -- scale-up ------------------------------------------------------------------------------------


def _scale_up(case: Case) -> Case:
    now, options, cloud = parse_time(case["now"]), options_from(case), cloud_of(case)
    simulation, nodes = simulation_of(case), nodes_of(case)
    sets = [DaemonSet.from_tree(tree) for tree in case.get("daemonSets") or ()]
    templates = Templates().update(simulation, cloud, nodes, sets, now)
    state = ClusterState(options, Backoff())
    for op in case.get("ops") or ():
        state.fail(op["group"], Failure("Other", op["errorCode"]), now + op["at"] * SECOND)
    at_once(state.update(cloud, nodes, now))
    calls, targets = list[Case](), {group.id: group.target for group in cloud.groups}
    errors = {each["id"]: each.get("increaseError", "") for each in case["groups"]}

    def increase(group: str, size: int) -> str:
        error = str(errors[group])
        calls.append({"call": "increase", "delta": size, "group": group})
        if error:
            calls[-1]["error"] = error
        else:
            targets[group] += size
        return error

    # The prices of these cases are by names of nodes, and a template has another.
    market = replace(market_of(case), templates=templates, prices=expander.Prices())
    situation = Situation(
        simulation,
        cloud,
        state,
        options,
        market,
        nodes,
        now,
        immediate(increase),
    )
    pods = pods_of(case.get("pendingPods"))
    found = at_once(scale_up(situation, pods, all_or_nothing=bool(case.get("allOrNothing"))))
    return _outcome_json(found) | {"calls": calls, "targets": targets}


def _keys(pods: tuple[Pod, ...]) -> list[str]:
    return sorted(pod.key for pod in pods)


def _outcome_json(found: Outcome) -> Case:
    told: Case = {
        "await": _keys(found.awaiting),
        "considered": list(found.considered),
        "infos": [info_json(each) for each in found.infos],
        "options": [
            {
                "group": each.group,
                "nodeCount": each.node_count,
                "pods": _keys(each.pods),
                "similar": list(each.similar),
            }
            for each in sorted(found.options, key=lambda option: option.group)
        ],
        "remain": {
            each.pod.key: {
                name: {
                    how: list(reasons[name])
                    for how, reasons in (("rejected", each.rejected), ("skipped", each.skipped))
                    if name in reasons
                }
                for name in {**each.rejected, **each.skipped}
            }
            for each in found.remaining
        },
        "result": found.result,
        "triggered": _keys(found.triggered),
    }
    if found.error:
        told["error"] = found.error
    return told


# -- loops ---------------------------------------------------------------------------------------


def _loops(case: Case, want: Case) -> tuple[Case, Case]:
    """Play the loops of a case; where pods were bound is replayed from the answer."""
    tree = case.get("autoscalingOptions") or {}
    options = replace(
        options_from(case),
        expanders=("least-waste",),
        enforce_min_size=bool(tree.get("enforceNodeGroupMinSize")),
        provision_time=tree.get("maxNodeProvisionSeconds", 900) * SECOND,
        delay_after_add=tree.get("scaleDownDelayAfterAddSeconds", 600) * SECOND,
        unneeded_time=tree.get("scaleDownUnneededSeconds", 600) * SECOND,
    )
    world = World(case, options, controllers_of(case))
    steps = [world.step(op, wanted) for op, wanted in zip(case["ops"], want["steps"], strict=True)]
    return {"steps": [read_status(each) for each in want["steps"]]}, {"steps": steps}


ANSWERS: Final[Mapping[str, Callable[[Case], Any]]] = {
    "expander": _expander,
    "similar": _similar,
    "balance": _balance,
    "estimate": _estimate,
    "podgroups": _pod_groups,
    "utilization": _utilization,
    "drain": _drain,
    "removal": _removal,
    "backoff": _backoff,
    "clusterstate": _cluster_state,
    "planner": _planner,
    "scaleup": _scale_up,
    "runonce": dict,
}
