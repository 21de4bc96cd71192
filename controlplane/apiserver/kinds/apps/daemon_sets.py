"""DaemonSets. Upstream: pkg/registry/apps/daemonset, pkg/apis/apps."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.apiserver.kinds.apps.workloads import (
    Workload,
    validate_always_running,
    validate_collisions,
)
from controlplane.apiserver.kinds.cells import (
    age_of,
    labels_text,
    name_of,
    part_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.kinds.checks import (
    at_most_full,
    immutable,
    int_or_percent,
    non_negative_field,
    scaled,
    when,
)
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.core.pods.validation import validate_template
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import (
    selector_of,
    selector_shown,
    template_mismatch,
    validate_label_selector,
)
from controlplane.apiserver.kinds.strategy import Context, same
from controlplane.apiserver.kinds.trees import filled, with_spec
from controlplane.apiserver.schema.field_errors import FieldError, invalid, not_supported, required

__all__ = ["KIND"]


def default_daemon_set(tree: Tree) -> Tree:
    """Update strategy of a daemon set."""

    def spec(spec: Tree) -> Tree:
        spec = filled(templated(spec), {"revisionHistoryLimit": 10})
        strategy = spec.get("updateStrategy") or {}
        new = strategy if strategy.get("type") else {**strategy, "type": "RollingUpdate"}
        if new["type"] == "RollingUpdate":
            rolling = filled(new.get("rollingUpdate") or {}, {"maxUnavailable": 1, "maxSurge": 0})
            new = {**new, "rollingUpdate": rolling}
        return spec if new == strategy else {**spec, "updateStrategy": new}

    return with_spec(tree, spec)


def validate_daemon_set(tree: Tree) -> list[FieldError]:
    """Return the errors of a daemon set."""
    spec = tree.get("spec") or {}
    template = spec.get("template") or {}
    given = spec.get("selector")
    errors = validate_label_selector(given, "spec.selector")
    selector = selector_of(given)
    if selector is not None:
        errors += template_mismatch(selector, template, "spec.template")
    errors += when(
        given is not None and not given.get("matchLabels") and not given.get("matchExpressions"),
        invalid,
        "spec.selector",
        given,
        "empty selector is invalid for daemonset",
    )
    errors += validate_template(template, "spec.template")
    errors += validate_always_running(template.get("spec") or {}, "spec.template.spec", "DaemonSet")
    errors += non_negative_field(spec, "minReadySeconds", "spec")
    errors += _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    return errors + non_negative_field(spec, "revisionHistoryLimit", "spec")


def _daemon_strategy(strategy: Tree, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = {
            "Type": kind,
            "RollingUpdate": None
            if rolling is None
            else {
                "MaxUnavailable": rolling.get("maxUnavailable", 0),
                "MaxSurge": rolling.get("maxSurge", 0),
            },
        }
        return [not_supported(path, shown, ("RollingUpdate", "OnDelete"), sort=False)]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    place = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{place}.maxUnavailable")
    errors += int_or_percent(surge, f"{place}.maxSurge")
    errors += at_most_full(unavailable, f"{place}.maxUnavailable")
    errors += at_most_full(surge, f"{place}.maxSurge")
    if scaled(unavailable) and scaled(surge):
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{place}.maxSurge", surge, text))
    elif not scaled(unavailable) and not scaled(surge):
        errors.append(required(f"{place}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def validate_daemon_set_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed daemon set; its selector stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_daemon_set(new)
    return (
        immutable(
            selector_shown((new.get("spec") or {}).get("selector")),
            selector_shown((old.get("spec") or {}).get("selector")),
            "spec.selector",
        )
        + errors
    )


def validate_daemon_set_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counts of a daemon set's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ):
        errors += non_negative_field(status, key, "status")
    return errors + validate_collisions(status, was)


class DaemonSetStrategy(Workload):
    """Daemon sets."""

    def converted(self, tree: Tree) -> Tree:
        """The object with the annotation that stands for a field of upstream's internal form."""
        return _with_generation(tree, _template_generation(tree))

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        tree = super().prepare_create(ctx, tree)
        return _with_generation(tree, max(_template_generation(tree), 1))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = super().prepare_update(ctx, new, old)
        generation = _template_generation(old)
        if not same(new.get("spec") or {}, old.get("spec") or {}, "template"):
            generation += 1
        return _with_generation(new, generation)

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update with the template's generation, an annotation, and the spec as they were."""
        return _with_generation(
            super().prepare_status_update(ctx, new, old), _template_generation(old)
        )


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _template_generation(tree: Tree) -> int:
    text = (tree["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return parse_int64(text) or 0


def _with_generation(tree: Tree, generation: int) -> Tree:
    meta = tree["metadata"]
    annotations = meta.get("annotations") or {}
    text = str(generation)
    if annotations.get(_TEMPLATE_GENERATION) == text:
        return tree
    annotations = {**annotations, _TEMPLATE_GENERATION: text}
    return {**tree, "metadata": {**meta, "annotations": annotations}}


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    node = part_of(part_of(spec, "template"), "spec").get("nodeSelector")
    return [
        name_of(tree),
        *(state.get(key, 0) for key in keys),
        labels_text(node),
        age_of(tree, now),
        *template_cells(tree),
        selector_text(spec.get("selector")),
    ]


KIND = Kind(
    strategy=DaemonSetStrategy(
        default=default_daemon_set,
        rule=validate_daemon_set,
        update_rule=validate_daemon_set_update,
        status_rule=validate_daemon_set_status,
        generation=True,
        empty_status={
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        },
    ),
    row=_row,
)
