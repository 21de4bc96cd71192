"""ResourceClaimTemplates. Upstream: pkg/registry/resource/resourceclaimtemplate, pkg/apis/resource."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.resource.claim_status import admin_access
from controlplane.apiserver.kinds.resource.claims import (
    admin_allowed,
    default_claim_spec,
    requests_of,
    validate_claim_spec,
    validate_spec_kept,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy, without_labels
from controlplane.apiserver.kinds.trees import in_spec, inside
from controlplane.apiserver.schema.field_errors import FieldError, forbidden
from controlplane.apiserver.schema.field_order import in_order
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["KIND"]


def default_resource_claim_template(tree: Tree) -> Tree:
    """The template's requests."""
    return in_spec(tree, lambda spec: inside(spec, "spec", default_claim_spec))


def validate_claim_template(tree: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a ResourceClaimTemplate. `written` is the template's metadata as it was written."""
    spec = tree.get("spec") or {}
    meta = spec.get("metadata") or {}
    given = written if isinstance(written, dict) else {}
    errors: list[FieldError] = []
    for key in (
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uID",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        value = meta.get("uid" if key == "uID" else key)
        errors += when(value, forbidden, f"spec.metadata.{key}", "cannot be set")
    for key in ("ownerReferences", "finalizers", "managedFields"):
        errors += when(
            meta.get(key) is not None or given.get(key) == [],
            forbidden,
            f"spec.metadata.{key}",
            "cannot be set",
        )
    errors += validate_labels(meta.get("labels") or {}, "spec.metadata.labels")
    errors += validate_annotations(meta.get("annotations") or {}, "spec.metadata.annotations")
    return errors + validate_claim_spec(spec.get("spec") or {}, "spec.spec")


def validate_claim_template_update(new: Tree, old: Tree, written: Any) -> list[FieldError]:
    """Return the errors of a changed template: nothing of it may change. `written` is the spec as it was written."""
    given = written if isinstance(written, dict) else {}
    errors = validate_claim_template(new, given.get("metadata"))
    return errors + validate_spec_kept(
        _template_shown(new, given.get("spec")), _template_shown(old, None)
    )


def _template_shown(tree: Tree, written: Any) -> Tree:
    spec = tree.get("spec") or {}
    inner = internal("ResourceClaimSpec", spec.get("spec") or {}, written)
    kept = {key: value for key, value in (spec.get("metadata") or {}).items() if value}
    return {**in_order(_META, kept), "Spec": inner}


_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class ClaimTemplateStrategy(Strategy):
    """Templates of resource claims."""

    def permits(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the error of administrator's access that the namespace does not grant."""
        spec = (tree.get("spec") or {}).get("spec") or {}
        return admin_allowed(
            ctx, admin_access(requests_of(spec), "spec.devices.requests", "exactly")
        )

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return validate_claim_template(tree, ctx.written("spec", "metadata"))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_claim_template_update(new, old, ctx.written("spec"))

    def finish(self, tree: Tree) -> Tree:
        """Return the stored form: without empty labels."""
        return inside(tree, "spec", lambda spec: inside(spec, "metadata", without_labels))


KIND = Kind(
    strategy=ClaimTemplateStrategy(
        default=default_resource_claim_template,
        returns_deleted=True,
        has_status=False,
        meta_steps="AU",
    ),
    row=plain_row(),
)
