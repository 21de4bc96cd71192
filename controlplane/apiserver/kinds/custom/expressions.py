"""Expressions of webhooks and admission policies: whether they compile.

Upstream: apiserver pkg/admission/plugin/cel/compile.go.
"""

from __future__ import annotations

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule
from controlplane.apiserver.kinds.custom.rules import location
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["POLICY_NAMES", "expression_problems"]

POLICY_NAMES = frozenset(
    ("authorizer", "namespaceObject", "object", "oldObject", "params", "request", "variables")
)
"""What an expression of a policy may speak of."""


def expression_problems(source: str, path: str) -> list[FieldError]:
    """Why an expression of a policy does not compile."""
    try:
        compile_rule(source, POLICY_NAMES)
    except CelError as error:
        return [invalid(path, source, f"compilation failed: {location(source, error)}")]
    return []
