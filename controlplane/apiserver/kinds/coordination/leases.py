"""Leases. Upstream: pkg/registry/coordination/lease, pkg/apis/coordination."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import in_spec
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["KIND"]


def default_lease(tree: Tree) -> Tree:
    """Fields of coordinated leader election are not served."""

    def spec(spec: Tree) -> Tree:
        hidden = ("strategy", "preferredHolder")
        if any(key in spec for key in hidden):
            return {key: value for key, value in spec.items() if key not in hidden}
        return spec

    return in_spec(tree, spec)


def validate_lease(tree: Tree) -> list[FieldError]:
    """Return the errors of a lease."""
    spec = tree.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    errors = when(
        seconds is not None and seconds <= 0,
        invalid,
        "spec.leaseDurationSeconds",
        seconds,
        "must be greater than 0",
    )
    transitions = spec.get("leaseTransitions")
    errors += when(
        transitions is not None and transitions < 0,
        invalid,
        "spec.leaseTransitions",
        transitions,
        "must be greater than or equal to 0",
    )
    return errors


KIND = Kind(
    strategy=Strategy(
        default=default_lease,
        rule=validate_lease,
        has_status=False,
        create_on_update=True,
        unconditional_update=False,
        standard_finalizers=False,
    ),
    row=plain_row("spec.holderIdentity"),
)
