"""Indexes of pods, pod groups and claims by what they have to do with each other. Upstream: controller.go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controlplane.api import resource_claims as rules
from controlplane.api.resource_claims import ClaimRuleError
from controlplane.api.tree import Tree

if TYPE_CHECKING:
    from controlplane.api.object import Object

__all__ = [
    "claims_of_groups",
    "claims_of_pods",
    "group_claims",
    "group_templates",
    "members",
    "pod_claims",
    "pod_templates",
]


def _claims(
    user: Object[Any], name_of: Callable[[Tree, Tree], rules.NamedClaim]
) -> tuple[str, ...]:
    found = []
    for entry in rules.claim_entries(user.tree):
        try:
            name = name_of(user.tree, entry).name
        except ClaimRuleError:
            continue
        if name is not None:
            found.append(f"{user.namespace}/{name}")
    return tuple(dict.fromkeys(found))


def _templates(user: Object[Any]) -> tuple[str, ...]:
    names = (entry.get("resourceClaimTemplateName") for entry in rules.claim_entries(user.tree))
    return tuple(dict.fromkeys(f"{user.namespace}/{name}" for name in names if name is not None))


def pod_claims(pod: Object[Any]) -> tuple[str, ...]:
    """Index pods by their claims."""
    return _claims(pod, rules.name_of)


def pod_templates(pod: Object[Any]) -> tuple[str, ...]:
    """Index pods by the templates of their claims."""
    return _templates(pod)


def group_claims(group: Object[Any]) -> tuple[str, ...]:
    """Index pod groups by their claims."""
    return _claims(group, rules.name_of_group_claim)


def group_templates(group: Object[Any]) -> tuple[str, ...]:
    """Index pod groups by the templates of their claims."""
    return _templates(group)


def members(pod: Object[Any]) -> tuple[str, ...]:
    """Index pods by their pod group."""
    name = rules.group_name_of(pod.tree)
    return () if name is None else (f"{pod.namespace}/{name}",)


def claims_of_pods(claim: Object[Any]) -> tuple[str, ...]:
    """Index claims by the uid of the pod that controls them."""
    owners = claim.metadata.get("ownerReferences") or ()
    return tuple(
        owner.get("uid", "")
        for owner in owners
        if owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod")
    )


def claims_of_groups(claim: Object[Any]) -> tuple[str, ...]:
    """Index claims by namespace and uid of the pod group that controls them."""
    owner = rules.controller_of(claim.tree)
    if owner is None or owner.get("kind") != "PodGroup":
        return ()
    if not owner.get("apiVersion", "").startswith(f"{rules.SCHEDULING_GROUP}/"):
        return ()
    return (f"{claim.namespace}/{owner.get('uid', '')}",)
