"""Which nodes pods of a pod set may go to at all, and how many nodes fell out for what.

Follows `pkg/cache/scheduler/scheduling_simulator_default.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.api.constraints import Taint, Toleration
from controlplane.api.labels import Selector, SelectorError, requirement
from controlplane.api.node import Node
from controlplane.api.node_selector import LazyNodeSelector, PreferredTerms, node_selector
from controlplane.api.pod import Pod
from controlplane.api.taints import untolerated
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.kueue.topology.requests import PodSetRequest
from controlplane.kueue.topology.tree import Leaf


@dataclass
class Exclusions:
    """Counts of nodes, or of lowest domains, by what excludes them."""

    total: int = 0
    selector: int = 0
    affinity: int = 0
    domain: int = 0
    taints: dict[str, int] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)

    def count_taint(self, taint: Taint) -> None:
        """Count a node with a taint that is not tolerated."""
        text = taint_text(taint)
        self.taints[text] = self.taints.get(text, 0) + 1

    def count_resource(self, name: str) -> None:
        """Count a domain that a resource keeps from holding a single pod."""
        self.resources[name] = self.resources.get(name, 0) + 1

    def copy(self) -> Exclusions:
        """An independent copy."""
        return Exclusions(
            self.total, self.selector, self.affinity, self.domain,
            dict(self.taints), dict(self.resources),
        )  # fmt: skip

    def text(self) -> str:
        """The end of a failure message; empty if nothing was excluded."""
        plain = (
            ("nodeSelector", self.selector),
            ("affinity", self.affinity),
            ("topologyDomain", self.domain),
        )
        reasons = [f"{name}: {count}" for name, count in plain if count]
        reasons += [f"taint {quote(name)}: {count}" for name, count in self.taints.items()]
        reasons += [f"resource {quote(name)}: {count}" for name, count in self.resources.items()]
        if not reasons:
            return ""
        return f". Total nodes: {self.total}; excluded: {', '.join(sorted(reasons))}"


@dataclass(frozen=True)
class PodRules:
    """Conditions of the pods of a pod set on a node, apart from room."""

    tolerations: tuple[Toleration, ...] = ()
    selector: Selector | None = None
    affinity: LazyNodeSelector | None = None
    preferred: PreferredTerms | None = None


def taint_text(taint: Taint) -> str:
    """A taint as Go writes it."""
    value = f"={taint.value}" if taint.value else ""
    if taint.effect:
        return f"{taint.key}{value}:{taint.effect}"
    return f"{taint.key}{value}:" if value else taint.key


def pod_rules(
    request: PodSetRequest,
    flavor_tolerations: tuple[Toleration, ...],
    *,
    nodes: bool,
    preferred: bool,
) -> tuple[PodRules | None, str]:
    """Read the rules of a pod set.

    Args:
        request: The pod set, with updates of admission checks.
        flavor_tolerations: Tolerations that the flavor adds.
        nodes: The lowest level is the node, so that the node selector counts.
        preferred: Preferred node affinity counts.

    Returns:
        The rules, or None and what is wrong with the pod set.
    """
    spec = (request.pod_set.get("template") or {}).get("spec") or {}
    selector, tolerations, problem = _updated(request, spec)
    if problem:
        return None, problem
    pod = Pod.from_tree(
        {"spec": {"tolerations": tolerations, "affinity": spec.get("affinity") or {}}}
    ).spec
    labels = None
    if nodes:
        try:
            labels = Selector([requirement(key, "=", [selector[key]]) for key in sorted(selector)])
        except SelectorError as error:
            shown = " ".join(f"{key}:{selector[key]}" for key in sorted(selector))
            return None, f"invalid node selectors: map[{shown}], reason: {error}"
    wanted = pod.affinity.node_affinity if pod.affinity else None
    required = wanted.required_during_scheduling_ignored_during_execution if wanted else None
    terms = wanted.preferred_during_scheduling_ignored_during_execution if wanted else ()
    try:
        affinity = None if required is None else node_selector(required)
    except SelectorError as error:
        return None, f"invalid affinity node selectors: {required}, reason: {error}"
    try:
        scored = PreferredTerms(terms) if preferred and terms else None
    except SelectorError as error:
        return None, f"invalid preferred node affinity terms: {list(terms)}, reason: {error}"
    return PodRules((*pod.tolerations, *flavor_tolerations), labels, affinity, scored), ""


def _updated(request: PodSetRequest, spec: Tree) -> tuple[dict[str, str], list[Tree], str]:
    """Node selector and tolerations with the updates of admission checks; a conflict as third value."""
    own = request.pod_set.get("template") or {}
    merged = {
        "annotations": dict((own.get("metadata") or {}).get("annotations") or {}),
        "labels": dict((own.get("metadata") or {}).get("labels") or {}),
        "nodeSelector": dict(spec.get("nodeSelector") or {}),
    }
    tolerations: list[Tree] = list(spec.get("tolerations") or ())
    for update in request.updates:
        for field_name, present in merged.items():
            added = update.get(field_name) or {}
            for key in sorted(added):
                if present.get(key, added[key]) != added[key]:
                    return (
                        {},
                        [],
                        (
                            f"invalid podSetUpdate for PodSet {request.name}, error: invalid admission "
                            f"check PodSetUpdate: conflict for {field_name}: conflict for key={key}, "
                            f"value1={present[key]}, value2={added[key]}"
                        ),
                    )
        for field_name, present in merged.items():
            present.update(update.get(field_name) or {})
        known = {_toleration_key(each) for each in tolerations}
        for each in update.get("tolerations") or ():
            if _toleration_key(each) not in known:
                known.add(_toleration_key(each))
                tolerations.append(each)
    return merged["nodeSelector"], tolerations, ""


def _toleration_key(toleration: Tree) -> tuple[str, str, str, str]:
    return (
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
    )


def feasible(
    leaves: Iterable[Leaf], rules: PodRules, excluded: Exclusions
) -> list[tuple[Leaf, int]]:
    """The lowest domains whose node suits the pods, each with its score of preferred affinity."""
    found = []
    for leaf in leaves:
        excluded.total += 1
        node = leaf.node
        if node is None:
            found.append((leaf, 0))
        elif _suits(node, rules, excluded):
            found.append((leaf, rules.preferred.score(node) if rules.preferred else 0))
    return found


def _suits(node: Node, rules: PodRules, excluded: Exclusions) -> bool:
    taint = untolerated(node.spec.taints, rules.tolerations, comparison=True)
    if taint is not None:
        excluded.count_taint(taint)
        return False
    if rules.selector is not None and not rules.selector.matches(node.metadata.labels):
        excluded.selector += 1
        return False
    if rules.affinity is not None and not rules.affinity.match(node):
        excluded.affinity += 1
        return False
    return True
