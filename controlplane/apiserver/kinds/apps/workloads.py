"""Rules that the kinds which make pods from a template share."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from controlplane.api import labels
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.batch.job_rules import FEW_AT_ONCE, MANY_COMPLETIONS
from controlplane.apiserver.kinds.cells import (
    age_of,
    name_of,
    part_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.kinds.checks import non_negative_field, when
from controlplane.apiserver.kinds.core.pods.disabled_fields import without_disabled_in_template
from controlplane.apiserver.kinds.core.pods.validation import validate_template
from controlplane.apiserver.kinds.core.pods.warnings import template_warnings
from controlplane.apiserver.kinds.selectors import template_mismatch, validate_label_selector
from controlplane.apiserver.kinds.strategy import Context, Strategy, without_labels
from controlplane.apiserver.kinds.trees import inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = [
    "Workload",
    "labels_from_template",
    "replica_row",
    "validate_always_running",
    "validate_collisions",
    "validate_counts",
    "validate_replica_status",
    "validate_replica_template",
    "validate_selected",
]


def labels_from_template(tree: Tree) -> Tree:
    """An object without labels takes those of its pod template."""
    template = tree["spec"].get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    meta = tree.get("metadata") or {}
    if labels and not meta.get("labels"):
        return {**tree, "metadata": {**meta, "labels": labels}}
    return tree


def validate_always_running(spec: Tree, path: str, kind: str) -> list[FieldError]:
    """Pods of these kinds are restarted and have no deadline."""
    policy = spec.get("restartPolicy", "")
    errors = when(policy != "Always", not_supported, f"{path}.restartPolicy", policy, ("Always",))
    text = f"activeDeadlineSeconds in {kind} is not Supported"
    errors += when(
        "activeDeadlineSeconds" in spec, forbidden, f"{path}.activeDeadlineSeconds", text
    )
    return errors


def validate_replica_template(spec: Tree, selector: labels.Selector, path: str) -> list[FieldError]:
    """Return the errors of a template whose pods are kept running and match the selector."""
    template = spec.get("template") or {}
    errors: list[FieldError] = []
    if not selector.empty():
        errors += template_mismatch(selector, template, path)
    errors += validate_template(template, path)
    return errors + validate_always_running(
        template.get("spec") or {}, f"{path}.spec", "ReplicaSet"
    )


def validate_selected(spec: Tree, path: str, kind: str) -> list[FieldError]:
    """Return the errors of the selector of a workload, which selects something and stays."""
    selector = spec.get("selector")
    if selector is None:
        return [required(f"{path}.selector")]
    errors = validate_label_selector(selector, f"{path}.selector")
    errors += when(
        not selector.get("matchLabels") and not selector.get("matchExpressions"),
        invalid,
        f"{path}.selector",
        selector,
        f"empty selector is invalid for {kind}",
    )
    return errors


_LESS = "cannot be greater than {}"


def validate_counts(
    status: Tree, limits: list[tuple[str, str]], prefix: str = "status", *, full: bool = False
) -> list[FieldError]:
    """Return the errors of the counts of a status; none exceeds the number of replicas.

    `full`: messages name the path of every bound, not of `replicas` alone.
    """
    errors: list[FieldError] = []
    for key, bound in limits:
        value, limit = status.get(key, 0), status.get(bound, 0)
        if value > limit:
            shown = f"{prefix}.{bound}" if full or bound == "replicas" else bound
            errors.append(invalid(f"status.{key}", value, _LESS.format(shown)))
    return errors


def validate_collisions(status: Tree, was: Tree) -> list[FieldError]:
    """Return the errors of the count of collisions, which does not decrease."""
    count, before = status.get("collisionCount"), was.get("collisionCount")
    if before is None:
        return []
    if count is None or count < before:
        return [invalid("status.collisionCount", count or 0, "cannot be decremented")]
    return []


def validate_replica_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Counts of a replica set's or replication controller's status."""
    status = new.get("status") or {}
    errors: list[FieldError] = []
    for key in (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ):
        errors += non_negative_field(status, key, "status")
    return errors + validate_counts(
        status,
        [
            ("fullyLabeledReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ],
    )


@frozen(kw_only=True, eq=False)
class Workload(Strategy):
    """A kind that makes pods from a template; what its spec lacks was filled in when it was stored.

    `named_pods`: the name becomes part of the names of pods, and so should be a label.
    """

    named_pods: bool = False

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """Fill in the defaults of a spec that is not the stored one."""
        if old is not None and tree.get("spec") is old.get("spec"):
            return tree
        return super().defaults(tree, old)

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Drop the fields of pods whose gates are off."""
        return super().prepare_create(ctx, _template_without_disabled(ctx, tree, None))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Drop the fields of pods whose gates are off, unless the stored object has them."""
        return super().prepare_update(ctx, _template_without_disabled(ctx, new, old), old)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings for the name and the template."""
        if old is not None and tree.get("spec") == old.get("spec"):
            return []
        spec, path = tree.get("spec") or {}, "spec.template"
        if "jobTemplate" in spec:
            spec, path = spec["jobTemplate"].get("spec") or {}, "spec.jobTemplate.spec.template"
        found: list[str] = []
        problems = names.dns_label(tree["metadata"].get("name", "")) if self.named_pods else ()
        if old is None and problems:
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in "
                f"surprising behavior; a DNS label is recommended: [{' '.join(problems)}]"
            )
        found += _indexed_warnings(spec, path.removesuffix(".template"))
        return found + template_warnings(spec.get("template") or {}, path)

    def finish(self, tree: Tree) -> Tree:
        """Return the stored form: without empty labels of the template."""
        return inside(
            tree,
            "spec",
            lambda spec: inside(
                spec, "template", lambda made: inside(made, "metadata", without_labels)
            ),
        )


def _indexed_warnings(spec: Tree, path: str) -> list[str]:
    """Return the warnings for an indexed job that is too large to be tracked."""
    if (
        spec.get("completionMode") != "Indexed"
        or (spec.get("completions") or 0) <= MANY_COMPLETIONS
        or (spec.get("parallelism") or 0) <= FEW_AT_ONCE
    ):
        return []
    return [
        f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
        "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number "
        "of indexes fail"
    ]


def _template_without_disabled(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """The object less the fields of its pods' template whose gates are off."""
    spec, was = tree.get("spec"), (old or {}).get("spec")
    if spec is None or spec is was:
        return tree

    def changed(owner: Tree, before: Tree | None) -> Tree:
        return inside(
            owner,
            "template",
            lambda template: without_disabled_in_template(
                template, (before or {}).get("template"), ctx.gates, ctx.earlier
            ),
        )

    if "jobTemplate" in spec:
        job = ((was or {}).get("jobTemplate") or {}).get("spec")
        new = inside(
            spec, "jobTemplate", lambda made: inside(made, "spec", lambda spec: changed(spec, job))
        )
    else:
        new = changed(spec, was)
    return tree if new is spec else {**tree, "spec": new}


def replica_row(tree: Tree, now: int) -> list[Any]:
    """The cells of a replica set."""
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    return [
        name_of(tree),
        spec.get("replicas", 0),
        state.get("replicas", 0),
        state.get("readyReplicas", 0),
        age_of(tree, now),
        *template_cells(tree),
        selector_text(spec.get("selector")),
    ]
