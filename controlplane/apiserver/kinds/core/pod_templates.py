"""PodTemplates. Upstream: pkg/registry/core/podtemplate."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import labels_text, name_of, part_of, template_cells
from controlplane.apiserver.kinds.core.pods.defaults import default_template
from controlplane.apiserver.kinds.core.pods.disabled_fields import without_disabled_in_template
from controlplane.apiserver.kinds.core.pods.validation import validate_template
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy, same, without_labels
from controlplane.apiserver.kinds.trees import inside
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["KIND"]


def default_pod_template(tree: Tree) -> Tree:
    """The template's defaults."""
    return inside(tree, "template", default_template)


def validate_pod_template(tree: Tree) -> list[FieldError]:
    """Return the errors of a pod template."""
    return validate_template(tree.get("template") or {}, "template")


class PodTemplateStrategy(Strategy):
    """Pod templates count the changes of the template: they have no spec."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return super().prepare_create(ctx, _template_without_disabled(ctx, tree, None))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return super().prepare_update(ctx, _template_without_disabled(ctx, new, old), old)

    def finish(self, tree: Tree) -> Tree:
        """Return the stored form: without empty labels."""
        return inside(tree, "template", lambda spec: inside(spec, "metadata", without_labels))

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update increments the generation."""
        return not same(new, old, "template")


def _template_without_disabled(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    return inside(
        tree,
        "template",
        lambda template: without_disabled_in_template(
            template, (old or {}).get("template"), ctx.gates, ctx.earlier
        ),
    )


KIND = Kind(
    strategy=PodTemplateStrategy(
        default=default_pod_template,
        rule=validate_pod_template,
        has_status=False,
        returns_deleted=True,
        generation=True,
    ),
    row=lambda tree, _now: [
        name_of(tree),
        *template_cells({"spec": {"template": tree.get("template") or {}}}),
        labels_text(part_of(part_of(tree, "template"), "metadata").get("labels")),
    ],
)
