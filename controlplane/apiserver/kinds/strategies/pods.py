"""Pods: status, service quality, graceful deletion, binding. Upstream: pkg/registry/core/pod."""

from __future__ import annotations

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.defaulting.pods import default_pod
from controlplane.apiserver.kinds.quality_of_service import qos_class
from controlplane.apiserver.kinds.strategy import Context, Strategy, same, with_status
from controlplane.apiserver.kinds.warnings import pod_warnings
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["PodStrategy", "bound"]

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"

_NEW: dict[str, Tree] = {
    qos: {"phase": "Pending", "qosClass": qos} for qos in ("Guaranteed", "Burstable", "BestEffort")
}
"""The status of a new pod, by its quality of service; shared, as nobody writes to it."""
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


class PodStrategy(Strategy):
    """The strategy of pods."""

    returns_deleted = True
    graceful = True

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """The defaults of this kind."""
        tree = _with_ips(tree)
        if old is not None and tree.get("spec") is old.get("spec"):
            return tree
        return default_pod(tree)

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """What a new object of this kind starts with."""
        spec = tree["spec"]
        status = _NEW[qos_class(spec)]
        if spec.get("schedulingGates"):
            status = {**status, "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": _GATED, "lastProbeTime": None,
                "lastTransitionTime": format_time(ctx.now),
            }]}  # fmt: skip
        if spec.get("terminationGracePeriodSeconds", 0) < 0:
            spec = {**spec, "terminationGracePeriodSeconds": 1}
            tree = {**tree, "spec": spec}
        for key in tree["metadata"].get("annotations") or ():
            if key.startswith(_APP_ARMOR):
                ctx.warn(f'metadata.annotations[{key}]: deprecated since v1.30; use the '
                         '"appArmorProfile" field instead')  # fmt: skip
        meta = {**tree["metadata"], "generation": 1}
        return {**tree, "metadata": meta, "status": status}

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """What is wrong with a new object of this kind."""
        from controlplane.apiserver.kinds.validation.pods import validate_pod

        return validate_pod(tree)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        return pod_warnings(tree, old)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """What an update of this kind keeps and counts."""
        new = with_status(new, old)
        if not same(new, old, "spec"):
            meta = dict(new["metadata"])
            meta["generation"] = old["metadata"].get("generation", 0) + 1
            new = {**new, "metadata": meta}
        return new

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """What is wrong with an update of this kind."""
        from controlplane.apiserver.kinds.validation.pod_updates import validate_pod_update

        return validate_pod_update(new, old)

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """What a status update of this kind keeps."""
        new = with_status(new, old, "spec")
        meta = with_status(new["metadata"], old["metadata"], "ownerReferences")
        if meta is not new["metadata"]:
            new = {**new, "metadata": meta}
        state, was = new["status"], old["status"]
        if state is not was:
            if not state.get("qosClass"):
                qos = was.get("qosClass") or qos_class(new["spec"])
                new = {**new, "status": {**state, "qosClass": qos}}
        return new

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """What is wrong with a status update of this kind."""
        from controlplane.apiserver.kinds.validation.pod_updates import validate_pod_status_update

        return validate_pod_status_update(new, old)

    def prepare_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> Tree:
        """What an update of a subresource keeps."""
        spec, was = new["spec"], old["spec"]
        if sub == "resize":
            kept = {**was}
            for key in ("containers", "initContainers"):
                if key in was:
                    kept[key] = _resized(spec.get(key) or [], was[key])
            spec = kept
        else:
            spec = with_status(was, spec, "ephemeralContainers")
        meta = old["metadata"]
        changed = {**meta, "resourceVersion": new["metadata"].get("resourceVersion", "")}
        if "managedFields" in new["metadata"]:
            changed["managedFields"] = new["metadata"]["managedFields"]
        new = {**old, "metadata": changed, "spec": spec}
        if not same(new, old, "spec"):
            changed["generation"] = meta.get("generation", 0) + 1
        return new

    def validate_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> list[FieldError]:
        """What is wrong with an update of a subresource."""
        from controlplane.apiserver.kinds.validation import pod_updates

        if sub == "resize":
            errors = pod_updates.validate_resize(new, old)
            if not errors:
                _check_node(ctx, new, old)
            return errors
        return pod_updates.validate_ephemeral_update(new, old)

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write cannot set."""
        if sub == "status":
            return (("f:spec",), ("f:metadata", "f:deletionTimestamp"),
                    ("f:metadata", "f:ownerReferences"))  # fmt: skip
        return (("f:status",),)

    def grace_period(self, tree: Tree, wanted: int | None) -> int:
        """The grace period of a deletion."""
        spec = tree["spec"]
        period = wanted
        if period is None:
            period = spec.get("terminationGracePeriodSeconds") or 0
        if not spec.get("nodeName") or tree["status"].get("phase") in ("Failed", "Succeeded"):
            period = 0
        return 1 if period < 0 else period


def _resized(new: list[Tree], old: list[Tree]) -> list[Tree]:
    """The old containers with the new ones' resources; a changed set is left for validation."""
    if [c.get("name") for c in new] != [c.get("name") for c in old]:
        return new
    out = []
    for container, earlier in zip(new, old, strict=True):
        kept = dict(earlier)
        for key in ("resources", "resizePolicy"):
            kept = with_status(kept, container, key)
        out.append(kept)
    return out


def _check_node(ctx: Context, new: Tree, old: Tree) -> None:
    """A pod on a node that is not there cannot be resized."""
    node = new["spec"].get("nodeName", "")
    if new["spec"] == old["spec"] or not node:
        return
    if ctx.find("", "nodes", "", node) is None:
        raise status.forbidden(ctx.info, new["metadata"]["name"], f'node "{node}" not found')


def bound(ctx: Context, tree: Tree, node: str, annotations: Tree, labels: Tree) -> Tree:
    """The pod on its node: what a binding writes."""
    spec = {**tree["spec"], "nodeName": node}
    meta = tree["metadata"]
    if annotations:
        meta = {**meta, "annotations": {**meta.get("annotations", {}), **annotations}}
    if labels:
        meta = {**meta, "labels": {**meta.get("labels", {}), **labels}}
    status = {key: value for key, value in tree["status"].items() if key != "nominatedNodeName"}
    condition = {
        "type": "PodScheduled", "status": "True", "lastProbeTime": None,
        "lastTransitionTime": format_time(ctx.now),
    }  # fmt: skip
    conditions = status.get("conditions", [])
    status["conditions"] = [c for c in conditions if c["type"] != "PodScheduled"] + [condition]
    return {**tree, "metadata": meta, "spec": spec, "status": status}
