"""StatefulSets. Upstream: pkg/registry/apps/statefulset, pkg/apis/apps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.apps.workloads import (
    Workload,
    validate_always_running,
    validate_collisions,
    validate_counts,
    validate_selected,
)
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of, template_cells
from controlplane.apiserver.kinds.checks import non_negative_field, one_of, problems, when
from controlplane.apiserver.kinds.core.persistent_volume_claims import (
    claim_warnings,
    validate_claim_spec,
)
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.core.pods.validation import pod_annotations, validate_template
from controlplane.apiserver.kinds.core.resources import resources
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.selectors import selector_of, selector_shown, template_mismatch
from controlplane.apiserver.kinds.strategy import Context, without
from controlplane.apiserver.kinds.trees import each, filled, inside, with_spec
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
)

__all__ = ["KIND"]


def default_stateful_set(tree: Tree) -> Tree:
    """Policies of a stateful set."""

    def claim(claim: Tree) -> Tree:
        claim = inside(
            claim,
            "spec",
            lambda s: inside(filled(s, {"volumeMode": "Filesystem"}), "resources", resources),
        )
        named = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        if any(claim.get(key) != text for key, text in named.items()):
            claim = {**claim, **named}
        status = claim.get("status") or {}
        if "phase" not in status:
            claim = {**claim, "status": {**status, "phase": "Pending"}}
        return claim

    def spec(spec: Tree) -> Tree:
        spec = filled(
            templated(spec),
            {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"},
        )
        strategy = spec.get("updateStrategy") or {}
        new = strategy
        if not strategy.get("type"):
            new = {"rollingUpdate": {}, **strategy, "type": "RollingUpdate"}
        if new["type"] == "RollingUpdate" and new.get("rollingUpdate") is not None:
            new = {**new, "rollingUpdate": filled(new["rollingUpdate"], {"partition": 0})}
        if new != strategy:
            spec = {**spec, "updateStrategy": new}
        retention = filled(
            spec.get("persistentVolumeClaimRetentionPolicy") or {},
            {"whenDeleted": "Retain", "whenScaled": "Retain"},
        )
        if retention != spec.get("persistentVolumeClaimRetentionPolicy"):
            spec = {**spec, "persistentVolumeClaimRetentionPolicy": retention}
        return each(spec, "volumeClaimTemplates", claim)

    return with_spec(tree, spec)


_RETENTION = ("Retain", "Delete")


def validate_stateful_set(
    tree: Tree, *, new: bool = True, check_template: bool = True
) -> list[FieldError]:
    """Return the errors of a stateful set. The claim templates of one that is there are not looked at again.

    Without `check_template`, of the template only labels and annotations are validated.
    """
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        errors.append(required("spec.podManagementPolicy"))
    elif policy not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", policy, text))
    errors += _set_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        value = retention.get(key, "")
        errors += one_of(
            value, f"spec.persistentVolumeClaimRetentionPolicy.{key}", _RETENTION, sort=False
        )
    claims = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims if new else ()):
        place = f"spec.volumeClaimTemplates[{index}].spec"
        errors += validate_claim_spec(claim.get("spec") or {}, place)
    errors += non_negative_field(spec, "replicas", "spec")
    errors += non_negative_field(spec, "minReadySeconds", "spec")
    errors += non_negative_field(spec.get("ordinals") or {}, "start", "spec.ordinals")
    service = spec.get("serviceName", "")
    if service and new:
        errors += problems("spec.serviceName", service, names.dns_label(service))
    errors += validate_selected(spec, "spec", "statefulset")
    selector = selector_of(spec.get("selector"))
    template = spec.get("template") or {}
    if selector is None:
        errors.append(invalid("spec.selector", selector_shown(spec.get("selector")), ""))
    else:
        if not selector.empty():
            errors += template_mismatch(selector, template, "spec.template")
        shown = _with_claims(_without_identity(template), claims)
        errors += validate_template(shown, "spec.template") if check_template else []
        errors += _set_template(shown, "spec.template")
    return errors + validate_always_running(
        template.get("spec") or {}, "spec.template.spec", "StatefulSet"
    )


def _without_identity(template: Tree) -> Tree:
    """The template without host name and subdomain, which the controller replaces in every pod."""
    spec = template.get("spec") or {}
    if not spec.get("hostname") and not spec.get("subdomain"):
        return template
    return {**template, "spec": without(without(spec, "hostname"), "subdomain")}


def _with_claims(template: Tree, claims: Iterable[Tree]) -> Tree:
    """The template as its pods have it: a claim template is a volume, whatever else has its name."""
    names_of = dict.fromkeys((claim.get("metadata") or {}).get("name", "") for claim in claims)
    if not names_of:
        return template
    spec = template.get("spec") or {}
    volumes = [each for each in spec.get("volumes") or () if each.get("name") not in names_of]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names_of]
    return {**template, "spec": {**spec, "volumes": [*made, *volumes]}}


def _set_template(template: Tree, path: str) -> list[FieldError]:
    """Labels and annotations are looked at twice, as upstream does."""
    meta = template.get("metadata") or {}
    errors = validate_labels(meta.get("labels") or {}, f"{path}.labels")
    annotations = meta.get("annotations") or {}
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        errors += pod_annotations(annotations, template.get("spec") or {}, f"{path}.annotations")
    return errors


def _set_strategy(strategy: Tree, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    shown_rolling = (
        None
        if rolling is None
        else {
            "Partition": rolling.get("partition", 0),
            "MaxUnavailable": rolling.get("maxUnavailable"),
        }
    )
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            return [invalid(f"{path}.rollingUpdate", shown_rolling, text)]
        return []
    if kind == "RollingUpdate":
        return non_negative_field(rolling or {}, "partition", f"{path}.rollingUpdate")
    text = "must be 'RollingUpdate' or 'OnDelete'"
    return [invalid(path, {"Type": kind, "RollingUpdate": shown_rolling}, text)]


_SET_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "persistentVolumeClaimRetentionPolicy",
    "revisionHistoryLimit",
)


def validate_stateful_set_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed stateful set; most of its spec stays."""
    if new.get("spec") is old.get("spec"):
        return []
    # A template that was accepted before a rule was there may stay, and may change.
    sound = not validate_stateful_set(old, new=False)
    errors = validate_stateful_set(new, new=False, check_template=sound)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    fixed = {key: value for key, value in spec.items() if key not in _SET_MUTABLE}
    before = {key: value for key, value in was.items() if key not in _SET_MUTABLE}
    errors += when(
        fixed != before,
        forbidden,
        "spec",
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', "
        "'template', 'updateStrategy', 'revisionHistoryLimit', "
        "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
    )
    return errors


def validate_stateful_set_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counts of a stateful set's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ):
        errors += non_negative_field(status, key, "status")
    errors += validate_counts(
        status,
        [
            ("readyReplicas", "replicas"),
            ("currentReplicas", "replicas"),
            ("updatedReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ],
        full=True,
    )
    return errors + validate_collisions(status, was)


class StatefulSetStrategy(Workload):
    """Stateful sets."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return super().prepare_create(ctx, _without_max_unavailable(tree))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return super().prepare_update(ctx, _without_max_unavailable(new), old)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        found = super().warnings(ctx, tree, old)
        if (tree.get("spec") or {}).get("revisionHistoryLimit", 0) < 0:
            found.append(
                "spec.revisionHistoryLimit: a negative value retains all historical "
                "revisions; a value >= 0 is recommended"
            )
        for index, claim in enumerate((tree.get("spec") or {}).get("volumeClaimTemplates") or ()):
            place = f"spec.volumeClaimTemplates[{index}]"  # as upstream: without its spec
            found += claim_warnings(claim.get("spec") or {}, place)
        return found


def _without_max_unavailable(tree: Tree) -> Tree:
    """Without the field that gate MaxUnavailableStatefulSet brings; managed fields name it all the same."""
    spec = tree.get("spec") or {}
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if "maxUnavailable" not in rolling:
        return tree
    strategy = {**strategy, "rollingUpdate": without(rolling, "maxUnavailable")}
    return {**tree, "spec": {**spec, "updateStrategy": strategy}}


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    ready = f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(tree), ready, age_of(tree, now), *template_cells(tree)]


KIND = Kind(
    strategy=StatefulSetStrategy(
        default=default_stateful_set,
        name_rule=names.dns_label,
        rule=validate_stateful_set,
        update_rule=validate_stateful_set_update,
        status_rule=validate_stateful_set_status,
        generation=True,
        empty_status={"availableReplicas": 0, "replicas": 0},
    ),
    row=_row,
)
