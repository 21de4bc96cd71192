"""Answers of the Cluster Autoscaler's decisions, by our code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler import balancing, estimator, expander
from controlplane.autoscaler.groups import GroupOptions, Instance, NodeGroup, Option, Template
from controlplane.autoscaler.pods import equivalence_groups
from controlplane.autoscaler.simulation import Simulation
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
    return difference(_plain(want), _plain(given))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value] or None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()} or None
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
        tree["id"],
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


ANSWERS: Final[Mapping[str, Callable[[Case], Any]]] = {
    "expander": _expander,
    "similar": _similar,
    "balance": _balance,
    "estimate": _estimate,
    "podgroups": _pod_groups,
}
