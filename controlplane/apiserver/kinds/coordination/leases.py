"""Leases. Upstream: pkg/registry/coordination/lease, pkg/apis/coordination."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import non_negative_field, when
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
    seconds, path = spec.get("leaseDurationSeconds"), "spec.leaseDurationSeconds"
    errors = when(
        seconds is not None and seconds <= 0, invalid, path, seconds, "must be greater than 0"
    )
    return errors + non_negative_field(spec, "leaseTransitions", "spec")


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
