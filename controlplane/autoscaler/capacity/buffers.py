"""CapacityBuffers: how many pods one stands for, what quotas leave of them, its status, its pods.

Upstream: `capacitybuffer/{translators,controller,common,fakepods}`, `processors/capacitybuffer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.api.quantity import Quantity, parse
from controlplane.api.quota import in_scope
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.defaults import default_pod
from controlplane.autoscaler.drain import SAFE_TO_EVICT

__all__ = [
    "PROVISIONING",
    "READY",
    "STRATEGY",
    "Unprovisionable",
    "allocate",
    "fake_pods",
    "is_fake",
    "managed_template",
    "not_ready",
    "number_of_pods",
    "ready",
    "with_condition",
]

STRATEGY: Final = "buffer.x-k8s.io/active-capacity"
READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
LIMITED: Final = "LimitedByQuotas"
_FAKE: Final = ("podType", "capacityBufferFakePod")
_LONGEST: Final = 253
Templates = Callable[[str], Tree | None]
"""Finds a PodTemplate of a namespace by name."""


class Unprovisionable(Exception):
    """A buffer that cannot be provisioned; the text is upstream's."""


# -- size ------------------------------------------------------------------------------------------


def number_of_pods(spec: Tree, template: Tree, scalable: int | None) -> int:
    """Return how many pods a buffer stands for. Raises Unprovisionable.

    Args:
        spec: of the buffer.
        template: of its pods.
        scalable: the replicas of the object that it names; None without one.
    """
    wanted = -1
    if spec.get("replicas") is not None:
        wanted = max(0, spec["replicas"])
    if spec.get("percentage") is not None and scalable is not None:
        share = -(-spec["percentage"] * scalable // 100)
        wanted = max(wanted, share if spec["percentage"] > 0 and scalable > 0 else 0)
    if spec.get("limits") is not None:
        most = _most_within(_requests(template), spec["limits"])
        return min(wanted, most) if wanted >= 0 else most
    if wanted < 0:
        raise Unprovisionable("replicas, percentage and limits are not defined")
    return wanted


def _requests(template: Tree) -> Mapping[str, Quantity]:
    return pod_requests(_pod(template))


def _pod(template: Tree, **metadata: Any) -> Pod:
    """Return a pod of a template, whose requests follow from its limits."""
    own = template.get("metadata") or {}
    spec = template.get("spec") or {}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {**own, **metadata}, "spec": spec}
    return Pod.from_tree(default_pod(tree))


def _most_within(requests: Mapping[str, Quantity], limits: Mapping[str, Any]) -> int:
    found = [
        parse(str(limits[name])).milli_value() // amount.milli_value()
        for name, amount in requests.items()
        if name in limits and amount.milli_value() > 0
    ]
    if not found:
        raise Unprovisionable("resources in configured limits not found in the pod template")
    return min(found)


def managed_template(buffer: Tree, template: Tree) -> Tree:
    """Return the PodTemplate that the controller keeps for a buffer."""
    meta = buffer["metadata"]
    room = _LONGEST - len("capacitybuffer--pod-template")
    own = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {
            "name": f"capacitybuffer-{meta['name'][:room]}-pod-template",
            "namespace": meta["namespace"],
            "ownerReferences": [_owner(buffer)],
        },
        "template": {
            "metadata": {key: own[key] for key in ("labels", "annotations") if own.get(key)},
            "spec": template.get("spec") or {},
        },
    }


def _owner(buffer: Tree) -> Tree:
    meta = buffer["metadata"]
    named = {"name": meta["name"], "uid": meta["uid"], "controller": True}
    return {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", **named}


# -- quotas ----------------------------------------------------------------------------------------


def allocate(
    buffers: Sequence[Tree], quotas: Sequence[Tree], templates: Templates, now: int
) -> list[Tree]:
    """Return buffers of a namespace with what its ResourceQuotas leave of them, the first ones first."""
    reserved: dict[str, dict[str, Quantity]] = {}
    return [_allocated(each, quotas, templates, reserved, now) for each in buffers]


def _allocated(
    buffer: Tree,
    quotas: Sequence[Tree],
    templates: Templates,
    reserved: dict[str, dict[str, Quantity]],
    now: int,
) -> Tree:
    status = buffer.get("status") or {}
    template = templates((status.get("podTemplateRef") or {}).get("name", ""))
    if template is None or status.get("replicas") is None:
        return buffer
    pod = _pod(template["template"], namespace=buffer["metadata"]["namespace"])
    wanted = _tracked(pod_requests(pod))
    if not wanted:
        return buffer
    allowed = desired = status["replicas"]
    matching = [each for each in quotas if in_scope("", "pods", each["spec"], pod.tree)]
    blocking: list[str] = []
    for quota in matching:
        most = _most_left(quota, wanted, reserved.get(quota["metadata"]["uid"], {}))
        if most is not None and most < desired:
            blocking.append(quota["metadata"]["name"])
            allowed = min(allowed, most)
    for quota in matching if allowed > 0 else ():
        kept = reserved.setdefault(quota["metadata"]["uid"], {})
        for name, amount in wanted.items():
            if name in ((quota.get("status") or {}).get("hard") or {}):
                more = Quantity.new_milli(amount.milli_value() * allowed, amount.format)
                kept[name] = kept[name] + more if name in kept else more
    told = (
        f"Buffer replicas limited from {desired} to {allowed} due to quotas: {', '.join(blocking)}"
    )
    limited = allowed < desired
    made = {
        "type": LIMITED,
        "status": "True" if limited else "False",
        "reason": "ResourceQuotasAllocated",
        "message": told if limited else "",
        "observedGeneration": buffer["metadata"].get("generation", 0),
    }
    changed = {**status, "replicas": allowed} if limited else status
    return with_condition({**buffer, "status": changed}, made, now)


def _tracked(requests: Mapping[str, Quantity]) -> dict[str, Quantity]:
    names = {name: amount for name, amount in requests.items() if amount.milli_value() > 0}
    return {**names, **{f"requests.{name}": amount for name, amount in names.items()}}


def _most_left(
    quota: Tree, wanted: Mapping[str, Quantity], reserved: Mapping[str, Quantity]
) -> int | None:
    """Return how many pods fit into a quota; None where it limits nothing that they request."""
    status = quota.get("status") or {}
    found: list[int] = []
    for name, hard in (status.get("hard") or {}).items():
        if name not in wanted:
            continue
        left = parse(str(hard)).milli_value()
        left -= parse(str((status.get("used") or {}).get(name, "0"))).milli_value()
        left -= reserved[name].milli_value() if name in reserved else 0
        found.append(max(0, left // wanted[name].milli_value()))
    return min(found, default=None)


# -- status ----------------------------------------------------------------------------------------


def ready(buffer: Tree, template: Tree, replicas: int, now: int) -> Tree:
    """Return a buffer that is ready, with its PodTemplate and the number of its pods."""
    status = {**_known(buffer), **_reference(template), "replicas": replicas}
    made = {"type": READY, "status": "True", "reason": "AttributesSetSuccessfully"}
    return with_condition({**buffer, "status": status}, {**made, "message": "ready"}, now)


def not_ready(buffer: Tree, template: Tree | None, error: str, now: int) -> Tree:
    """Return a buffer that is not ready, and why."""
    status = {**_known(buffer), **({} if template is None else _reference(template))}
    told = f"Buffer not ready for provisioning: {error}"
    made = {"type": READY, "status": "False", "reason": "error", "message": told}
    return with_condition({**buffer, "status": status}, made, now)


def _known(buffer: Tree) -> Tree:
    """Return the status without what the controller sets anew."""
    kept = {"conditions": (buffer.get("status") or {}).get("conditions") or []}
    return {**kept, "provisioningStrategy": buffer["spec"].get("provisioningStrategy") or STRATEGY}


def _reference(template: Tree) -> Tree:
    meta = template["metadata"]
    return {
        "podTemplateRef": {"name": meta["name"]},
        "podTemplateGeneration": meta.get("generation", 0),
    }


def with_condition(buffer: Tree, made: Tree, now: int) -> Tree:
    """Return a buffer with a condition; its time is that at which its status changed."""
    status = buffer.get("status") or {}
    known = status.get("conditions") or []
    old = next((each for each in known if each["type"] == made["type"]), None)
    same = old is not None and old["status"] == made["status"]
    when = old["lastTransitionTime"] if same and old is not None else format_time(now)
    made = {**made, "lastTransitionTime": when}
    if old is None:
        found = [*known, made]
    else:
        found = [made if each["type"] == made["type"] else each for each in known]
    return {**buffer, "status": {**status, "conditions": found}}


# -- pods ------------------------------------------------------------------------------------------


def fake_pods(buffer: Tree, template: Tree) -> list[Pod]:
    """Return the pods that hold the capacity of a buffer in a loop; the API server never has them."""
    meta = buffer["metadata"]
    own = template.get("metadata") or {}
    notes = {**(own.get("annotations") or {}), _FAKE[0]: _FAKE[1], SAFE_TO_EVICT: "true"}
    return [
        _pod(
            template,
            name=f"capacity-buffer-{meta['name']}-{number}",
            namespace=meta["namespace"],
            uid=f"{meta['uid']}-{number}",
            annotations=notes,
            ownerReferences=[_owner(buffer)],
        )
        for number in range(1, buffer["status"]["replicas"] + 1)
    ]


def is_fake(pod: Pod) -> bool:
    """Return whether a pod stands for a part of a buffer."""
    return pod.metadata.annotations.get(_FAKE[0]) == _FAKE[1]
