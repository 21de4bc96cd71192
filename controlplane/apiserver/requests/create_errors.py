"""The rules of new objects. Upstream: BeforeCreate in apiserver pkg/registry/rest/create.go."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import problems
from controlplane.apiserver.kinds.metadata import finalizer_errors, validate_meta
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["create_errors"]


def create_errors(ctx: Context, strategy: Strategy, tree: Tree) -> list[FieldError]:
    """Return the errors of a new object: of its metadata and of its kind, in upstream's order."""
    namespaced = ctx.info.namespaced
    meta = tree["metadata"]
    if strategy.meta_apart:
        found = strategy.validate(ctx, tree)
        return found or validate_meta(meta, names.path_segment, namespaced=namespaced)
    errors = strategy.permits(ctx, tree)
    errors += validate_meta(
        meta,
        strategy.name_rule_of(tree),
        namespaced=namespaced,
        prefix=strategy.checks_prefix,
    )
    if strategy.standard_finalizers:
        errors += finalizer_errors(meta)
    errors += strategy.validate(ctx, tree)
    if not errors:  # any name that a kind permits has to fit into a path
        name = meta.get("name", "")
        errors += problems("metadata.name", name, names.path_segment(name))
    return errors
