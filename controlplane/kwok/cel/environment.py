"""Compile and evaluate expressions: of stages over `self`, of metrics over `node`, `pod` and `container`.

Upstream: pkg/utils/cel/environment.go, pkg/utils/lifecycle/lifecycle.go and pkg/kwok/metrics/evaluator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from controlplane.apiserver.kinds.custom.cel.checker import checked
from controlplane.apiserver.kinds.custom.cel.evaluation import planned
from controlplane.apiserver.kinds.custom.cel.signatures import CONTEXT, Library
from controlplane.apiserver.kinds.custom.cel.syntax import parsed
from controlplane.apiserver.kinds.custom.cel.tree import CelError
from controlplane.apiserver.kinds.custom.cel.types import Type, read_type
from controlplane.apiserver.kinds.custom.rules import location
from controlplane.kwok.cel.library import METRICS, STAGES, Context
from controlplane.kwok.cel.objects import go_object, type_of_kind
from controlplane.kwok.cel.results import ExpressionError

__all__ = ["check", "check_metric", "evaluate", "evaluate_metric"]

SELF: Final = "self"
_METRIC: Final = {
    name: read_type(f"v1.{name.capitalize()}") for name in ("node", "pod", "container")
}
Run = Callable[[dict[str, Any]], Any]


def _compiled(source: str, variables: Mapping[str, Type], library: Library) -> Run:
    if not source:
        raise ExpressionError("failed to compile expression: no source code")
    try:
        return planned(checked(parsed(source, standard=True), variables, library))
    except CelError as error:
        told = location(source, error, name="")
        raise ExpressionError(f"failed to compile expression: {told}") from None


@lru_cache(maxsize=512)
def _stage_program(source: str, kind: Type) -> Run:
    return _compiled(source, {SELF: kind}, STAGES)


@lru_cache(maxsize=512)
def _metric_program(source: str) -> Run:
    try:
        return _compiled(source, _METRIC, METRICS)
    except ExpressionError as error:
        raise ExpressionError(f"failed to compile metric expression: {error}") from None


def check(source: str, api_version: str, kind: str) -> None:
    """Refuse an expression of a stage for objects of a kind that does not compile. Raises ExpressionError."""
    _stage_program(source, type_of_kind(api_version, kind))


def evaluate(source: str, tree: Mapping[str, Any], now: int, draw: Callable[[], float]) -> Any:
    """Return the value of an expression of a stage for an object at a time in nanoseconds. Raises ExpressionError."""
    api_version, kind = str(tree.get("apiVersion") or ""), str(tree.get("kind") or "")
    type_ = type_of_kind(api_version, kind)
    program = _stage_program(source, type_)
    value = tree if type_.name == "map" else go_object(kind, tree)
    try:
        return program({SELF: value, CONTEXT: Context(now, draw)})
    except CelError as error:
        raise ExpressionError(str(error)) from None


def check_metric(source: str) -> None:
    """Refuse an expression of a metric or a usage that does not compile. Raises ExpressionError."""
    _metric_program(source)


def evaluate_metric(
    source: str,
    context: Context,
    node: Mapping[str, Any],
    pod: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
) -> Any:
    """Return the value of an expression of a metric for a node, one of its pods and one of the pod's containers.

    Raises:
        ExpressionError: the expression does not compile, or its evaluation fails.
    """
    program = _metric_program(source)
    scope: dict[str, Any] = {CONTEXT: context}
    for name, kind, tree in (
        ("node", "Node", node),
        ("pod", "Pod", pod),
        ("container", "Container", container),
    ):
        scope[name] = None if tree is None else go_object(kind, tree)
    try:
        return program(scope)
    except CelError as error:
        raise ExpressionError(f"failed to evaluate metric expression: {error}") from None
