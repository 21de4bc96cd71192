"""Node selectors: required terms, preferred terms, and the required affinity of a pod.

Rules and messages are those of component-helpers' `nodeaffinity` package. A selector can be built
strictly (all errors at once) or lazily, where a broken term counts only when no other matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controlplane.api.constraints import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from controlplane.api.labels import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    from_set,
    requirement,
)
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.validation import child, invalid, not_supported

_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST,
                     "Gt": GREATER_THAN, "Lt": LESS_THAN}  # fmt: skip
_FIELD_OPERATORS: Final = ("In", "NotIn")


class Term:
    """One compiled term: label requirements, field requirements, or the errors found in it."""

    __slots__ = ("errors", "fields", "labels")

    def __init__(self, term: NodeSelectorTerm, path: str) -> None:
        self.errors: list[str] = []
        self.labels = self._compile_labels(term.match_expressions, child(path, "matchExpressions"))
        self.fields = self._compile_fields(term.match_fields, child(path, "matchFields"))

    def _compile_labels(
        self, expressions: tuple[NodeSelectorRequirement, ...], path: str
    ) -> Selector:
        found: list[Requirement] = []
        for i, expression in enumerate(expressions):
            at = f"{path}[{i}]"
            operator = _OPERATORS.get(expression.operator)
            if operator is None:
                self.errors.append(
                    not_supported(child(at, "operator"), expression.operator, _OPERATORS)
                )
                continue
            try:
                found.append(requirement(expression.key, operator, expression.values, at))
            except SelectorError as error:
                self.errors += error.messages
        return Selector(found)

    def _compile_fields(
        self, expressions: tuple[NodeSelectorRequirement, ...], path: str
    ) -> tuple[tuple[str, str, bool], ...]:
        found = []
        for i, expression in enumerate(expressions):
            at = f"{path}[{i}]"
            if expression.operator not in _FIELD_OPERATORS:
                self.errors.append(
                    not_supported(child(at, "operator"), expression.operator, _FIELD_OPERATORS)
                )
            elif len(expression.values) != 1:
                self.errors.append(
                    invalid(child(at, "values"), expression.values, "must have one element")
                )
            else:
                found.append((expression.key, expression.values[0], expression.operator == "In"))
        return tuple(found)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node of this name and these labels fits; never with errors."""
        if self.errors or not self.labels.matches(labels):
            return False
        if name:
            for key, value, wanted in self.fields:
                actual = name if key == "metadata.name" else ""
                if (actual == value) is not wanted:
                    return False
        return True


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


class LazyNodeSelector:
    """Terms of which one must match; empty terms match nothing."""

    __slots__ = ("terms",)

    def __init__(self, selector: NodeSelector, path: str = "") -> None:
        base = child(path, "nodeSelectorTerms")
        self.terms = tuple(
            Term(term, f"{base}[{i}]")
            for i, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )

    @property
    def errors(self) -> list[str]:
        """All errors of all terms."""
        return [error for term in self.terms for error in term.errors]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a term matches; SelectorError when none does and some are broken."""
        for term in self.terms:
            if term.matches(name, labels):
                return True
        errors = self.errors
        if errors:
            raise SelectorError(*errors)
        return False

    def match(self, node: Node) -> bool:
        """`matches` for a node."""
        return self.matches(node.metadata.name, node.metadata.labels)


def node_selector(selector: NodeSelector, path: str = "") -> LazyNodeSelector:
    """A checked node selector; SelectorError with the errors of all terms."""
    compiled = LazyNodeSelector(selector, path)
    errors = compiled.errors
    if errors:
        raise SelectorError(*errors)
    return compiled


class PreferredTerms:
    """Weighted terms; a node earns the sum of the weights of those that match it.

    Terms without weight or requirements are dropped; SelectorError names the broken ones.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Iterable[PreferredSchedulingTerm], path: str = "") -> None:
        found = []
        errors: list[str] = []
        for i, preferred in enumerate(terms):
            if preferred.weight == 0 or _is_empty(preferred.preference):
                continue
            term = Term(preferred.preference, f"{path}[{i}]")
            errors += term.errors
            found.append((term, preferred.weight))
        if errors:
            raise SelectorError(*errors)
        self.terms = tuple(found)

    def score(self, node: Node) -> int:
        """The sum of the weights of the matching terms."""
        name, labels = node.metadata.name, node.metadata.labels
        return sum(weight for term, weight in self.terms if term.matches(name, labels))


class RequiredNodeAffinity:
    """`spec.nodeSelector` and the required node affinity of a pod, together."""

    __slots__ = ("affinity", "labels")

    def __init__(self, pod: Pod) -> None:
        self.labels: Selector | None = (
            from_set(pod.spec.node_selector) if pod.spec.node_selector else None
        )
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = (
            affinity.required_during_scheduling_ignored_during_execution if affinity else None
        )
        self.affinity = None if required is None else LazyNodeSelector(required)

    def match(self, node: Node) -> bool:
        """Return whether a node fits both; SelectorError as for `LazyNodeSelector`."""
        if self.labels is not None and not self.labels.matches(node.metadata.labels):
            return False
        return self.affinity is None or self.affinity.match(node)
