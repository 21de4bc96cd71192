"""Pods: status, service quality, graceful deletion, binding. Upstream: pkg/registry/core/pod."""

from __future__ import annotations

from typing import Final

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.api.quantity import parse
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.defaults import default_pod
from controlplane.apiserver.kinds.core.pods.disabled_fields import without_disabled
from controlplane.apiserver.kinds.core.pods.quality_of_service import qos_class
from controlplane.apiserver.kinds.core.pods.resize import prepare_resize, validate_resize
from controlplane.apiserver.kinds.core.pods.row import pod_row
from controlplane.apiserver.kinds.core.pods.updates import (
    validate_ephemeral_update,
    validate_pod_status_update,
    validate_pod_update,
)
from controlplane.apiserver.kinds.core.pods.validation import validate_pod
from controlplane.apiserver.kinds.core.pods.warnings import pod_warnings
from controlplane.apiserver.kinds.kind import META, Kind, value_at
from controlplane.apiserver.kinds.strategy import Context, Strategy, kept_meta, same, with_status
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError
from controlplane.apiserver.schema.releases import reached
from controlplane.sharing.alike import alike, alike_list
from controlplane.sharing.compact import compact
from controlplane.sharing.memory import IdentityCache

__all__ = ["KIND"]

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_NEW: dict[str, Tree] = {
    qos: {"phase": "Pending", "qosClass": qos} for qos in ("Guaranteed", "Burstable", "BestEffort")
}
"""The status of a new pod, by its quality of service; shared, as it is never modified."""
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


def _with_ips(tree: Tree) -> Tree:
    """PodIP and the first of podIPs are the same address; podIP wins."""
    state = tree.get("status")
    if not state:
        return tree
    ip, ips = state.get("podIP"), state.get("podIPs")
    if ip and (not ips or ips[0].get("ip") != ip):
        return {**tree, "status": {**state, "podIPs": [{"ip": ip}]}}
    if ips and not ip:
        return {**tree, "status": {**state, "podIP": ips[0].get("ip", "")}}
    return tree


_CLAIM_STATUSES = "nodeAllocatableResourceClaimStatuses"
"""Left out unless it was there: the gate DRANodeAllocatableResources is off by default."""


def _counts_generations(ctx: Context) -> bool:
    """Return whether the release gives pods a generation: from 1.33 on, whatever the gates (KEP-5067)."""
    return reached(ctx.earlier, _GENERATIONS_SINCE)


_GENERATIONS_SINCE: Final = 33


class PodStrategy(Strategy):
    """The strategy of pods."""

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """The defaults of this kind."""
        tree = _with_ips(tree)
        if old is not None and tree.get("spec") is old.get("spec"):
            return tree
        return super().defaults(tree, old)

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        spec = without_disabled(tree["spec"], None, ctx.gates, ctx.earlier)
        if spec is not tree["spec"]:
            tree = {**tree, "spec": spec}
        status = _NEW[qos_class(spec)]
        if spec.get("schedulingGates"):
            status = {
                **status,
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "SchedulingGated",
                        "message": _GATED,
                        "lastProbeTime": None,
                        "lastTransitionTime": format_time(ctx.now),
                    }
                ],
            }
        if spec.get("terminationGracePeriodSeconds", 0) < 0:
            spec = {**spec, "terminationGracePeriodSeconds": 1}
            tree = {**tree, "spec": spec}
        for key in tree["metadata"].get("annotations") or ():
            if key.startswith(_APP_ARMOR):
                ctx.warn(
                    f"metadata.annotations[{key}]: deprecated since v1.30; use the "
                    '"appArmorProfile" field instead'
                )
        if _counts_generations(ctx):
            tree = {**tree, "metadata": {**tree["metadata"], "generation": 1}}
        return {**tree, "status": status}

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        return pod_warnings(tree, old)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = with_status(new, old)
        if new["spec"] is not old["spec"]:
            spec = without_disabled(new["spec"], old["spec"], ctx.gates, ctx.earlier)
            if spec is not new["spec"]:
                new = {**new, "spec": spec}
        if _counts_generations(ctx) and not same(new, old, "spec"):
            meta = dict(new["metadata"])
            meta["generation"] = old["metadata"].get("generation", 0) + 1
            new = {**new, "metadata": meta}
        return new

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_pod_update(new, old, ctx.written("spec"))

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        new = with_status(new, old, "spec")
        meta = with_status(new["metadata"], old["metadata"], "ownerReferences")
        if meta is not new["metadata"]:
            new = {**new, "metadata": meta}
        state, was = new["status"], old["status"]
        if state is not was:
            if not state.get("qosClass"):
                qos = was.get("qosClass") or qos_class(new["spec"])
                state = {**state, "qosClass": qos}
            if _CLAIM_STATUSES in state and not was.get(_CLAIM_STATUSES):
                state = {key: value for key, value in state.items() if key != _CLAIM_STATUSES}
            new = {**new, "status": state}
        return new

    def prepare_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> Tree:
        """Return an update of a subresource with the fields that it cannot change."""
        if sub == "resize":
            return prepare_resize(new, old)
        spec = with_status(old["spec"], new["spec"], "ephemeralContainers")
        meta = kept_meta(new["metadata"], old["metadata"])
        new = {**old, "metadata": meta, "spec": spec}
        if not _counts_generations(ctx) or same(new, old, "spec"):
            return new
        return {**new, "metadata": {**meta, "generation": meta.get("generation", 0) + 1}}

    def validate_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> list[FieldError]:
        """Return the errors of an update of a subresource."""
        if sub == "resize":
            errors = validate_resize(new, old)
            if not errors:
                _check_node(ctx, new, old)
            return errors
        return validate_ephemeral_update(new, old)

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write cannot set."""
        if sub == "status":
            return (
                ("f:spec",),
                ("f:metadata", "f:deletionTimestamp"),
                ("f:metadata", "f:ownerReferences"),
            )
        return (("f:status",),) if not sub else ()

    def grace_period(self, tree: Tree, wanted: int | None) -> int:
        """The grace period of a deletion."""
        spec = tree["spec"]
        period = wanted
        if period is None:
            period = spec.get("terminationGracePeriodSeconds") or 0
        if not spec.get("nodeName") or tree["status"].get("phase") in ("Failed", "Succeeded"):
            period = 0
        return 1 if period < 0 else period


def _check_node(ctx: Context, new: Tree, old: Tree) -> None:
    """Refuse to resize a pod on a node that is gone, is no Linux, or could never provide the amount.

    Upstream: plugin/pkg/admission/podresize, new in 1.36. Other pods do not count here.
    """
    name = new["spec"].get("nodeName", "")
    if new["spec"] == old["spec"] or not name:
        return
    pod = new["metadata"]["name"]
    found = ctx.find("", "nodes", "", name)
    if found is None:
        raise status.forbidden(ctx.info, pod, f'node "{name}" not found')
    node = found.tree
    system = (node["metadata"].get("labels") or {}).get("kubernetes.io/os", "linux")
    if system != "linux":
        text = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
        raise status.forbidden(ctx.info, pod, text, [_cause("UnsupportedPlatform", text)])
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    short = []
    requests = pod_requests(Pod.from_tree(new))
    for resource in ("cpu", "memory"):
        if resource in requests and resource in allocatable:
            wanted, has = requests[resource], parse(allocatable[resource])
            if wanted > has:
                amounts = [
                    q.milli_value() if resource == "cpu" else q.value() for q in (wanted, has)
                ]
                short.append(f"{resource}, requested: {amounts[0]}, allocatable: {amounts[1]}")
    if short:
        text = f"node didn't have enough allocatable resources: {'; '.join(short)}"
        raise status.forbidden(ctx.info, pod, text, [_cause("NodeCapacity", text)])


def _cause(reason: str, text: str) -> Tree:
    return {"reason": reason, "message": text}


def bound(ctx: Context, tree: Tree, node: str, annotations: Tree, labels: Tree) -> Tree:
    """The pod on its node: what a binding writes."""
    spec = compact({**tree["spec"], "nodeName": node})
    meta = tree["metadata"]
    if annotations:
        meta = {**meta, "annotations": {**meta.get("annotations", {}), **annotations}}
    if labels:
        meta = {**meta, "labels": {**meta.get("labels", {}), **labels}}
    before, since = tree["status"], format_time(ctx.now)
    status = _bound.get(before, since) or _bound.put(before, _bound_status(before, since), since)
    return {**tree, "metadata": meta, "spec": spec, "status": status}


_bound: IdentityCache[Tree] = IdentityCache("bound specs")
"""Pods that are new have one status, and so have those of them that are bound in one second."""


def _bound_status(before: Tree, since: str) -> Tree:
    status = {key: value for key, value in before.items() if key != "nominatedNodeName"}
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    conditions = status.get("conditions", [])
    others = [each for each in conditions if each["type"] != "PodScheduled"]
    status["conditions"] = alike_list([*others, alike(condition)])
    return status


def _selected(tree: Tree, path: str) -> str:
    """The text of a selectable field; a list of addresses has none."""
    return "" if path == "status.podIPs" else value_at(tree, path)


KIND = Kind(
    row=pod_row,
    strategy=PodStrategy(
        default=default_pod,
        rule=validate_pod,
        status_rule=validate_pod_status_update,
        returns_deleted=True,
        graceful=True,
        meta_steps="UA",
    ),
    selectable={
        **META,
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.podIPs": "",
        "status.nominatedNodeName": "",
    },
    aliases={"spec.host": "spec.nodeName"},
    value=_selected,
)
