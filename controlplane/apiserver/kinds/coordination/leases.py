"""Leases. Upstream: pkg/registry/coordination/lease, pkg/apis/coordination."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import non_negative_field, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.kinds.trees import in_spec
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["KIND"]


_HIDDEN = ("strategy", "preferredHolder")


def _disabled(tree: Tree, old: Tree | None) -> Tree:
    """The lease less the fields of coordinated leader election, which is off, unless it has them."""
    kept = (old or {}).get("spec") or {}

    def spec(spec: Tree) -> Tree:
        gone = [key for key in _HIDDEN if key in spec and key not in kept]
        return {key: value for key, value in spec.items() if key not in gone} if gone else spec

    return in_spec(tree, spec)


class LeaseStrategy(Strategy):
    """Leases: fields of a gate that is off are dropped after their writer was noted as manager."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return _disabled(super().prepare_create(ctx, tree), None)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return _disabled(super().prepare_update(ctx, new, old), old)


def validate_lease(tree: Tree) -> list[FieldError]:
    """Return the errors of a lease."""
    spec = tree.get("spec") or {}
    seconds, path = spec.get("leaseDurationSeconds"), "spec.leaseDurationSeconds"
    errors = when(
        seconds is not None and seconds <= 0, invalid, path, seconds, "must be greater than 0"
    )
    return errors + non_negative_field(spec, "leaseTransitions", "spec")


KIND = Kind(
    strategy=LeaseStrategy(
        rule=validate_lease,
        has_status=False,
        create_on_update=True,
        unconditional_update=False,
        standard_finalizers=False,
    ),
    row=plain_row("spec.holderIdentity"),
)
