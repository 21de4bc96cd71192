"""Admission of pod groups: their finalizer, their priority, and the workload that they were made from.

Upstream: plugin/pkg/admission/{scheduling/podgroupprotection,priority,podgroup,job}.
"""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission.pods import class_by_name, global_default
from controlplane.apiserver.schema import status

__all__ = ["job_parallelism", "priority", "protection", "workload_exists"]

FINALIZER = "scheduling.k8s.io/podgroup-protection"


def protection(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """A new group gets the finalizer that keeps it while pods are in it."""
    if old is not None or ctx.request.subresource:
        return tree
    meta = tree["metadata"]
    had = meta.get("finalizers") or []
    if FINALIZER in had:
        return tree
    return {**tree, "metadata": {**meta, "finalizers": [*had, FINALIZER]}}


def priority(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Resolve the priority class of a new group, where groups have a priority."""
    if old is not None or ctx.request.subresource or "WorkloadAwarePreemption" not in ctx.gates:
        return tree
    spec = tree["spec"]
    name = spec.get("priorityClassName") or ""
    if name:
        value: int = class_by_name(ctx, tree, name)["value"]
    else:
        name, value, _ = global_default(ctx)
    given = spec.get("priority")
    if given is not None and given != value:
        raise status.forbidden(
            ctx.info,
            status.told_name(tree),
            f"priority set in the pod group ({given}) must match the priority computed ({value}) "
            "based on the priority class set in the spec",
        )
    spec = {**spec, "priority": value}
    if name:
        spec["priorityClassName"] = name
    return {**tree, "spec": spec}


def workload_exists(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """A new group that names a template of a workload needs both. Raises ApiError."""
    if old is not None or ctx.request.subresource:
        return
    reference = (tree["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference is None:
        return
    name = reference.get("workloadName", "")
    found = ctx.find("scheduling.k8s.io", "workloads", ctx.request.namespace, name)
    why = ""
    if found is None:
        why = f'Workload "{name}" not found'
    elif found.tree["metadata"].get("deletionTimestamp"):
        why = f'Workload "{name}" is being deleted'
    else:
        template = reference.get("podGroupTemplateName", "")
        templates = (found.tree.get("spec") or {}).get("podGroupTemplates") or ()
        if all(each.get("name") != template for each in templates):
            why = f'PodGroupTemplate "{template}" not found in Workload "{name}"'
    if why:
        text = f"PodGroup rejected: {why}"
        raise status.forbidden(ctx.info, status.told_name(tree), text)


def job_parallelism(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """The parallelism of a Job stays while its pods are a gang. Raises ApiError."""
    gates = ctx.gates
    if old is None or ctx.request.subresource or not gates & {"GenericWorkload", "WorkloadWithJob"}:
        return
    if tree["spec"].get("parallelism") == old["spec"].get("parallelism"):
        return
    namespace = ctx.request.namespace
    template = (old["spec"].get("template") or {}).get("spec") or {}
    named = (template.get("schedulingGroup") or {}).get("podGroupName")
    if named is not None:
        found = ctx.find("scheduling.k8s.io", "podgroups", namespace, named)
        groups = [] if found is None else [found.tree]
    else:
        listed = ctx.lookup.within("scheduling.k8s.io", "podgroups", namespace)
        groups = [each.tree for each in listed if _is_controlled_by(each.tree, old)]
    for group in groups:
        if (group["spec"].get("schedulingPolicy") or {}).get("gang") is not None:
            name = group["metadata"]["name"]
            raise status.forbidden(
                ctx.info,
                status.told_name(tree),
                f'cannot change parallelism for a Job referencing gang-scheduled PodGroup "{name}"',
            )


def _is_controlled_by(tree: Tree, owner: Tree) -> bool:
    return any(
        each.get("controller") and each.get("uid") == owner["metadata"].get("uid")
        for each in tree["metadata"].get("ownerReferences") or ()
    )
