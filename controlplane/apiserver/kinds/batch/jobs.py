"""Jobs: defaults, strategy and row. Upstream: pkg/registry/batch/job, pkg/apis/batch."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.apps.workloads import Workload, labels_from_template
from controlplane.apiserver.kinds.batch.job_rules import validate_job, validate_job_update
from controlplane.apiserver.kinds.batch.job_status import validate_job_status
from controlplane.apiserver.kinds.cells import (
    age_of,
    human_duration,
    name_of,
    part_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.kind import META, Kind, value_at
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.kinds.trees import each, filled, inside, with_spec
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["KIND", "with_pod_conditions"]

_MAX_INT32 = 2**31 - 1


def default_job_spec(spec: Tree) -> Tree:
    """Defaults of a job's spec."""
    spec = templated(spec)
    defaults: Tree = {
        "parallelism": 1,
        "completionMode": "NonIndexed",
        "suspend": False,
        "manualSelector": False,
    }
    if "completions" not in spec and "parallelism" not in spec:
        defaults["completions"] = 1
    defaults["backoffLimit"] = _MAX_INT32 if "backoffLimitPerIndex" in spec else 6
    failure = spec.get("podFailurePolicy")
    defaults["podReplacementPolicy"] = "Failed" if failure else "TerminatingOrFailed"
    spec = filled(spec, defaults)
    return with_pod_conditions(spec)


def with_pod_conditions(spec: Tree) -> Tree:
    """Default the status of the conditions of pods that a failure policy names."""

    def pattern(entry: Tree) -> Tree:
        return entry if entry.get("status") else {**entry, "status": "True"}

    return inside(
        spec,
        "podFailurePolicy",
        lambda policy: each(policy, "rules", lambda rule: each(rule, "onPodConditions", pattern)),
    )


def default_job(tree: Tree) -> Tree:
    """Defaults of a job."""
    return labels_from_template(with_spec(tree, default_job_spec))


def _template_labels(job: Tree) -> Tree | None:
    labels: Tree | None = (job["spec"]["template"].get("metadata") or {}).get("labels")
    return labels


class JobStrategy(Workload):
    """Jobs; selector and template labels are generated from the uid."""

    def settles_on_update(self, ctx: Context, sub: str, old: Tree) -> bool:
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
        return labels_from_template(super().finish(tree))

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return validate_job(_as_written(ctx, tree))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_job_update(_as_written(ctx, new), old, ctx.written("spec"))


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
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ):
        labels.setdefault(key, value)
    selector = spec.get("selector") or {}
    matched = dict(selector.get("matchLabels", {}))
    matched.setdefault("batch.kubernetes.io/controller-uid", uid)
    template = {**template, "metadata": {**template_meta, "labels": labels}}
    spec = {**spec, "template": template, "selector": {**selector, "matchLabels": matched}}
    return {**tree, "spec": spec}


def _has(state: Tree, kind: str) -> bool:
    return any(
        c.get("type") == kind and c.get("status") == "True" for c in state.get("conditions") or ()
    )


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    done = state.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    elif spec.get("parallelism", 0) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/1"
    duration = ""
    if state.get("startTime"):
        ends = parse_time(state["completionTime"]) if state.get("completionTime") else now
        duration = human_duration((ends - parse_time(state["startTime"])) // SECOND)
    word = "Running"
    if _has(state, "Complete"):
        word = "Complete"
    elif _has(state, "Failed"):
        word = "Failed"
    elif tree["metadata"].get("deletionTimestamp"):
        word = "Terminating"
    elif _has(state, "Suspended"):
        word = "Suspended"
    elif _has(state, "FailureTarget"):
        word = "FailureTarget"
    elif _has(state, "SuccessCriteriaMet"):
        word = "SuccessCriteriaMet"
    return [
        name_of(tree),
        word,
        completions,
        duration,
        age_of(tree, now),
        *template_cells(tree),
        selector_text(spec.get("selector")),
    ]


def _selected(tree: Tree, path: str) -> str:
    """The text of a selectable field; `status.successful` stands under another name."""
    return value_at(tree, "status.succeeded" if path == "status.successful" else path)


KIND = Kind(
    strategy=JobStrategy(
        default=default_job,
        status_rule=validate_job_status,
        generation=True,
        named_pods=True,
        orphan_by_default=True,
        meta_steps="A",
    ),
    row=_row,
    selectable={**META, "status.successful": "0"},
    value=_selected,
)
