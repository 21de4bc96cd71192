"""Strategies of workload kinds. Upstream: pkg/registry/{apps,batch,autoscaling}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.defaulting import workloads as defaults
from controlplane.apiserver.kinds.defaulting.pods import inside
from controlplane.apiserver.kinds.disabled_fields import without_disabled_in_template
from controlplane.apiserver.kinds.strategy import (
    Context,
    Strategy,
    same,
    with_status,
    without,
    without_labels,
)
from controlplane.apiserver.kinds.validation import autoscaling, jobs
from controlplane.apiserver.kinds.warnings import claim_warnings, template_warnings
from controlplane.apiserver.schema.field_errors import FieldError, required

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.deletion import DeleteOptions


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
        return super().prepare_create(ctx, _without_disabled(tree, None))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Drop the fields of pods whose gates are off, unless the stored object has them."""
        return super().prepare_update(ctx, _without_disabled(new, old), old)

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
        return inside(tree, "spec", lambda spec: inside(
            spec, "template", lambda made: inside(made, "metadata", without_labels)))  # fmt: skip


def _indexed_warnings(spec: Tree, path: str) -> list[str]:
    """Return the warnings for an indexed job that is too large to be tracked."""
    if (spec.get("completionMode") != "Indexed"
            or (spec.get("completions") or 0) <= jobs.MANY_COMPLETIONS
            or (spec.get("parallelism") or 0) <= jobs.FEW_AT_ONCE):  # fmt: skip
        return []
    return [
        f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
        "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number "
        "of indexes fail"
    ]


def _without_disabled(tree: Tree, old: Tree | None) -> Tree:
    """The object less the fields of its pods' template whose gates are off."""
    spec, was = tree.get("spec"), (old or {}).get("spec")
    if spec is None or spec is was:
        return tree

    def changed(owner: Tree, before: Tree | None) -> Tree:
        return inside(owner, "template", lambda template: without_disabled_in_template(
            template, (before or {}).get("template")))  # fmt: skip

    if "jobTemplate" in spec:
        job = ((was or {}).get("jobTemplate") or {}).get("spec")
        new = inside(spec, "jobTemplate", lambda made: inside(
            made, "spec", lambda spec: changed(spec, job)))  # fmt: skip
    else:
        new = changed(spec, was)
    return tree if new is spec else {**tree, "spec": new}


class DeploymentStrategy(Workload):
    """Deployments; their annotations count for the generation too."""

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update of this kind increments the generation."""
        return not same(new, old, "spec") or not same(
            new["metadata"], old["metadata"], "annotations"
        )


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
            found.append("spec.revisionHistoryLimit: a negative value retains all historical "
                         "revisions; a value >= 0 is recommended")  # fmt: skip
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


def _template_labels(job: Tree) -> Tree | None:
    labels: Tree | None = (job["spec"]["template"].get("metadata") or {}).get("labels")
    return labels


class JobStrategy(Workload):
    """Jobs; selector and template labels are generated from the uid."""

    def settles_on_update(self, sub: str, old: Tree) -> bool:
        """A job that came without labels shares those of its template until it is written again."""
        return sub in ("", "status") and old["metadata"].get("labels") == _template_labels(old)

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return generated_selector(super().prepare_create(ctx, tree))

    def warn_delete(self, ctx: Context, options: DeleteOptions) -> None:
        """Warnings for a deletion of this kind."""
        if not options.policy and options.orphan is None:
            ctx.warn(
                "child pods are preserved by default when jobs are deleted; set "
                "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to "
                "suppress this warning"
            )

    def finish(self, tree: Tree) -> Tree:
        """Return the stored form of this kind."""
        return defaults.labels_from_template(super().finish(tree))

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return jobs.validate_job(_as_written(ctx, tree))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return jobs.validate_job_update(_as_written(ctx, new), old)


def _as_written(ctx: Context, tree: Tree) -> Tree:
    """A job whose policy of success has a list of rules where one was written without items."""
    if ctx.written("spec", "successPolicy", "rules") != []:
        return tree
    spec = tree["spec"]
    return {**tree, "spec": {**spec, "successPolicy": {**spec["successPolicy"], "rules": []}}}


def generated_selector(tree: Tree) -> Tree:
    """Selector and labels by which a job finds its pods, unless it manages them itself."""
    spec, meta = tree["spec"], tree["metadata"]
    if spec.get("manualSelector"):
        return tree
    template = spec.get("template") or {}
    template_meta = template.get("metadata") or {}
    uid, name = meta["uid"], meta.get("name", "")
    labels = dict(template_meta.get("labels", {}))
    for key, value in (
        ("controller-uid", uid), ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid), ("batch.kubernetes.io/job-name", name),
    ):  # fmt: skip
        labels.setdefault(key, value)
    selector = spec.get("selector") or {}
    matched = dict(selector.get("matchLabels", {}))
    matched.setdefault("batch.kubernetes.io/controller-uid", uid)
    template = {**template, "metadata": {**template_meta, "labels": labels}}
    spec = {**spec, "template": template, "selector": {**selector, "matchLabels": matched}}
    return {**tree, "spec": spec}


class AutoscalerStrategy(Strategy):
    """Horizontal pod autoscalers."""

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """The defaults of this kind."""
        if old is not None and tree.get("spec") is old.get("spec"):
            return tree
        return super().defaults(tree, old)

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        errors = super().validate(ctx, tree)
        for key in ("scaleUp", "scaleDown"):
            if ctx.written("spec", "behavior", key, "policies") == []:
                path = f"spec.behavior.{key}.policies"
                errors.append(required(path, "must specify at least one Policy"))
        return errors

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a status update of this kind."""
        return autoscaling.validate_autoscaler_status(new)

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        return with_status(new, old, "spec")
