"""Namespaces. Upstream: pkg/registry/core/namespace, pkg/apis/core/validation."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import validate_finalizer_name
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["KIND"]


def default_namespace(tree: Tree) -> Tree:
    """The label with the namespace's own name."""
    status = tree.get("status")
    if status is not None and not status.get("phase"):
        tree = {**tree, "status": {**status, "phase": "Active"}}
    meta = tree["metadata"]
    name = meta.get("name")
    labels = meta.get("labels", {})
    if not name or labels.get("kubernetes.io/metadata.name") == name:
        return tree
    labels = {**labels, "kubernetes.io/metadata.name": name}
    return {**tree, "metadata": {**meta, "labels": labels}}


def validate_namespace(tree: Tree) -> list[FieldError]:
    """Return the errors of a namespace."""
    errors: list[FieldError] = []
    for finalizer in (tree.get("spec") or {}).get("finalizers") or ():
        errors += validate_finalizer_name(finalizer, "spec.finalizers")
    return errors


def validate_namespace_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a namespace's status: its phase follows its deletion."""
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [invalid("status.Phase", phase, text)]
    elif phase != "Active":
        text = "may only be 'Active' if `deletionTimestamp` is empty"
        return [invalid("status.Phase", phase, text)]
    return []


class NamespaceStrategy(Strategy):
    """Namespaces: finalizers in the spec, a phase, and a label with the name."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        spec = tree.get("spec") or {}
        finalizers = spec.get("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        tree = {**tree, "spec": {**spec, "finalizers": finalizers}, "status": {"phase": "Active"}}
        return default_namespace(tree)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = with_status(new, old)
        spec = with_status(new.get("spec") or {}, old.get("spec") or {}, "finalizers")
        return {**new, "spec": spec}

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        return with_status(new, old, "spec")

    def validate_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> list[FieldError]:
        """Return the errors of replaced finalizers of the spec."""
        errors: list[FieldError] = []
        for index, name in enumerate((new.get("spec") or {}).get("finalizers") or ()):
            errors += validate_finalizer_name(name, f"spec.finalizers[{index}]")
        return errors


KIND = Kind(
    strategy=NamespaceStrategy(
        default=default_namespace,
        rule=validate_namespace,
        status_rule=validate_namespace_status,
        returns_deleted=True,
        deletes_in_steps=True,
        name_rule=names.dns_label,
        meta_steps="AU",
    ),
    row=plain_row("status.phase"),
    selectable={"metadata.name": "", "status.phase": ""},
)
