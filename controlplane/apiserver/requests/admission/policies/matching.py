"""Matching of the rules and selectors of a policy, binding or webhook against a request.

Upstream: apiserver pkg/admission/plugin/policy/matching and plugin/webhook/predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from controlplane.api.labels import Requirement, Selector, requirement
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.admission.policies.attributes import Attributes
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable

__all__ = ["Criteria", "Match", "criteria", "selector_of"]

_SIGNS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
Namespaces = Callable[[str], "Tree | None"]


def selector_of(tree: Tree | None) -> Selector:
    """The selector of an API object; one that says nothing takes everything."""
    if not tree:
        return Selector()
    wanted = [
        requirement(key, "=", (value,))
        for key, value in sorted((tree.get("matchLabels") or {}).items())
    ]
    for expression in tree.get("matchExpressions") or ():
        sign = _SIGNS.get(expression.get("operator", ""), "in")
        wanted.append(requirement(expression["key"], sign, expression.get("values") or ()))
    found: list[Requirement] = wanted
    return Selector(found)


@frozen(eq=False)
class Match:
    """The resource as whose objects a request is looked at: its own, or an equivalent one."""

    info: ResourceInfo


@frozen(eq=False)
class Criteria:
    """The rules and selectors of one owner, read once."""

    rules: tuple[Tree, ...]
    excluded: tuple[Tree, ...]
    namespaces: Selector
    objects: Selector
    equivalent: bool

    def match(
        self, given: Attributes, table: ResourceTable, namespaces: Namespaces
    ) -> Match | None:
        """Return the match of a request, or None. LookupError: the namespace is not known."""
        missing: LookupError | None = None
        try:
            if not self._in_namespaces(given, namespaces):
                return None
        except LookupError as error:
            missing = error
        if not self.objects.empty() and not (
            self._labelled(given.object) or self._labelled(given.old)
        ):
            return None
        if self._by_rules(self.excluded, given, table) is not None:
            return None
        found = self._by_rules(self.rules, given, table) if self.rules else Match(given.info)
        if found is not None and missing is not None:
            raise missing
        return found

    def _in_namespaces(self, given: Attributes, namespaces: Namespaces) -> bool:
        own = given.info.resource == "namespaces"
        if (not given.namespace and not own) or self.namespaces.empty():
            return True
        if own and not given.subresource and given.operation in ("CREATE", "UPDATE"):
            return self.namespaces.matches(_labels(given.object or {}))
        found = namespaces(given.namespace)
        if found is None:
            raise LookupError(f'namespaces "{given.namespace}" not found')
        return self.namespaces.matches(_labels(found))

    def _labelled(self, tree: Tree | None) -> bool:
        return tree is not None and self.objects.matches(_labels(tree))

    def _by_rules(
        self, rules: Iterable[Tree], given: Attributes, table: ResourceTable
    ) -> Match | None:
        for rule in rules:
            if _fits(rule, given, given.info) and _names(rule, given):
                return Match(given.info)
        if not self.equivalent:
            return None
        for rule in rules:
            for info in _equivalents(given.info, table):
                if _fits(rule, given, info) and _names(rule, given):
                    return Match(info)
        return None


def criteria(match: Tree) -> Criteria:
    """The criteria of `matchConstraints`, `matchResources` or a webhook. SelectorError."""
    return Criteria(
        tuple(match.get("resourceRules") or match.get("rules") or ()),
        tuple(match.get("excludeResourceRules") or ()),
        selector_of(match.get("namespaceSelector")),
        selector_of(match.get("objectSelector")),
        match.get("matchPolicy") == "Equivalent",
    )


def _labels(tree: Tree) -> dict[str, Any]:
    return (tree.get("metadata") or {}).get("labels") or {}


def _names(rule: Tree, given: Attributes) -> bool:
    wanted = rule.get("resourceNames")
    return not wanted or given.name in wanted


def _fits(rule: Tree, given: Attributes, info: ResourceInfo) -> bool:
    scope = rule.get("scope", "*")
    inside = info.namespaced and bool(given.namespace)
    if scope != "*" and inside is not (scope == "Namespaced"):
        return False
    return (
        _listed(rule, "operations", given.operation)
        and _listed(rule, "apiGroups", info.group)
        and _listed(rule, "apiVersions", info.version)
        and any(
            _is_resource(text, info.resource, given.subresource)
            for text in rule.get("resources") or ()
        )
    )


def _listed(rule: Tree, key: str, value: str) -> bool:
    listed = rule.get(key) or ()
    return value in listed or "*" in listed


def _is_resource(text: str, resource: str, subresource: str) -> bool:
    wanted, _, sub = text.partition("/")
    return wanted in ("*", resource) and sub in ("*", subresource)


def _equivalents(info: ResourceInfo, table: ResourceTable) -> list[ResourceInfo]:
    """The other versions of a resource, and of what is stored as the same."""
    return [
        other
        for other in table
        if other is not info
        and other.resource == info.resource
        and other.storage_prefix == info.storage_prefix
    ]
