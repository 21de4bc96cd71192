"""Conversion between the versions of a kind, and of bodies in another version than the requested one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds.autoscaling.versions import to_v1, to_v2
from controlplane.apiserver.kinds.resource.versions import from_beta1, to_beta1
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import META_STRUCT, DecodeError, decode, kind_error
from controlplane.apiserver.schema.json_values import json_type
from controlplane.apiserver.schema.resources import ResourceInfo

if TYPE_CHECKING:
    from controlplane.apiserver.schema.resources import ResourceTable

__all__ = ["KindName", "check_foreign_kind", "from_hub", "read_typed", "to_hub", "unreadable_kind"]

LEGACY: Final[Mapping[str, tuple[str, ...]]] = {
    "extensions/v1beta1": (
        "DaemonSet",
        "Deployment",
        "Ingress",
        "NetworkPolicy",
        "ReplicaSet",
        "Scale",
    ),
    "apps/v1beta1": ("ControllerRevision", "Deployment", "Scale", "StatefulSet"),
    "apps/v1beta2": (
        "ControllerRevision",
        "DaemonSet",
        "Deployment",
        "ReplicaSet",
        "Scale",
        "StatefulSet",
    ),
    "admissionregistration.k8s.io/v1alpha1": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
    "admissionregistration.k8s.io/v1beta1": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "batch/v1beta1": ("CronJob",),
    "certificates.k8s.io/v1beta1": ("CertificateSigningRequest",),
    "coordination.k8s.io/v1beta1": ("Lease",),
    "discovery.k8s.io/v1beta1": ("EndpointSlice",),
    "events.k8s.io/v1beta1": ("Event",),
    "flowcontrol.apiserver.k8s.io/v1beta1": ("FlowSchema", "PriorityLevelConfiguration"),
    "flowcontrol.apiserver.k8s.io/v1beta2": ("FlowSchema", "PriorityLevelConfiguration"),
    "flowcontrol.apiserver.k8s.io/v1beta3": ("FlowSchema", "PriorityLevelConfiguration"),
    "networking.k8s.io/v1beta1": ("IPAddress", "Ingress", "IngressClass", "ServiceCIDR"),
    "node.k8s.io/v1alpha1": ("RuntimeClass",),
    "node.k8s.io/v1beta1": ("RuntimeClass",),
    "policy/v1beta1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1alpha1": (
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ),
    "rbac.authorization.k8s.io/v1beta1": (
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ),
    "resource.k8s.io/v1beta1": (
        "DeviceClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
    ),
    "resource.k8s.io/v1beta2": (
        "DeviceClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceSlice",
    ),
    "scheduling.k8s.io/v1beta1": ("PriorityClass",),
    "storage.k8s.io/v1alpha1": ("CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"),
    "storage.k8s.io/v1beta1": (
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "StorageClass",
        "VolumeAttachment",
        "VolumeAttributesClass",
    ),
}
"""Versions that upstream's scheme still knows though they are not served, with their kinds."""
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_SCHEMES = {"apiregistration.k8s.io": "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28"}
"""Groups that a server of their own answers for: where its kinds are registered."""


@frozen
class KindName:
    """A kind that no resource stores, as Eviction."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


def check_foreign_kind(table: ResourceTable, info: ResourceInfo | KindName, body: Tree) -> Tree:
    """A body whose apiVersion or kind differs from the resource's: completed, or refused."""
    problem = kind_error(body)
    if problem:
        raise unreadable_kind(info.kind, problem, body)
    api_version = body.get("apiVersion") or info.api_version
    kind = body.get("kind") or info.kind
    if api_version == info.api_version and kind == info.kind:
        return {**body, "apiVersion": api_version, "kind": kind}
    version = api_version.rpartition("/")[2]
    subject = f"{kind} in version {quote(version)} cannot be handled as a {info.kind}"
    if api_version.count("/") > 1:
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): unexpected "
            f"GroupVersion string: {api_version} ({_snippet(body)})"
        )
    if _registered(table, api_version, kind):
        _decode_foreign(table, api_version, kind, body, subject)
        if kind == info.kind:
            raise status.bad_request(
                f"the API version in the data ({api_version}) does not match the expected API "
                f"version ({info.api_version})"
            )
        raise status.bad_request(
            f"{subject}: converting ({version}.{kind}) to ({info.group.partition('.')[0] or 'core'}"
            f".{info.kind}): unknown conversion"
        )
    if kind == info.kind and kind in LEGACY.get(api_version, ()):
        if isinstance(
            info, ResourceInfo
        ):  # of a version that is not served, the metadata are known
            _decode_as(info.type_name, {"metadata": body.get("metadata")}, subject)
        raise status.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({info.api_version})"
        )
    raise status.bad_request(
        f"{subject}: no kind {quote(kind)} is registered for version {quote(api_version)} in scheme "
        f'"{_SCHEMES.get(info.group, _SCHEME)}"'
    )


def unreadable_kind(kind: str, problem: str, body: Any) -> status.ApiError:
    """400 for a body that does not tell what it is."""
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {problem} "
        f"({_snippet(body)})"
    )


def read_typed(type_name: str, body: Any) -> Tree:
    """The body of a subresource or of a kind that is not stored, as a canonical tree.

    `type_name` ends in version and kind, as `io.k8s.api.core.v1.Binding`. No body is an empty
    object. ApiError 400.
    """
    version, kind = type_name.split(".")[-2:]
    body = {} if body is None else body
    problem = (
        kind_error(body)
        if isinstance(body, dict)
        else (
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_type(body)} "
            f"into Go value of type {META_STRUCT}"
        )
    )
    if problem:
        raise unreadable_kind(kind, problem, body)
    try:
        return decode(type_name, body)
    except DecodeError as error:
        raise status.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
        ) from None


_OPTIONS: Final = (
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
)
"""Kinds that every group and version has. Upstream: metav1.AddToGroupVersion."""


def _registered(table: ResourceTable, api_version: str, kind: str) -> bool:
    group, _, version = api_version.rpartition("/")
    served = table.versions(group) if kind in _OPTIONS else ()
    if served:
        return version in served
    base = kind.removesuffix("List")
    return table.by_kind(api_version, base) is not None or (api_version, kind) == ("v1", "List")


def _decode_foreign(
    table: ResourceTable, api_version: str, kind: str, body: Tree, subject: str
) -> None:
    """A body is decoded as what it says it is before the check whether that can be converted."""
    found = table.by_kind(api_version, kind)
    if found is None or found.custom is not None:
        return
    _decode_as(found.type_name, body, subject)


def _decode_as(type_name: str, body: Tree, subject: str) -> None:
    try:
        decode(type_name, body)
    except DecodeError as error:
        raise status.bad_request(f"{subject}: {error}") from None


def _snippet(body: Any) -> str:
    text = json.dumps(body, separators=(",", ":"))
    return text if len(text) <= 32 else text[:32] + " ..."


Converter = Callable[[Tree], Tree]


def _renamed(tree: Tree, names: dict[str, str]) -> Tree:
    return {names.get(key, key): value for key, value in tree.items()}


_EVENT_V1 = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_CORE = {new: old for old, new in _EVENT_V1.items()}


def _event_to_v1(tree: Tree) -> Tree:
    return _renamed(tree, _EVENT_V1)


def _event_to_core(tree: Tree) -> Tree:
    return _renamed(tree, _EVENT_CORE)


_FROM: dict[tuple[str, str, str], Converter] = {
    ("events.k8s.io", "v1", "events"): _event_to_v1,
    ("autoscaling", "v1", "horizontalpodautoscalers"): to_v1,
}
_TO: dict[tuple[str, str, str], Converter] = {
    ("events.k8s.io", "v1", "events"): _event_to_core,
    ("autoscaling", "v1", "horizontalpodautoscalers"): to_v2,
}
for _resource, _kind in (
    ("resourceclaims", "ResourceClaim"),
    ("resourceclaimtemplates", "ResourceClaimTemplate"),
    ("resourceslices", "ResourceSlice"),
):
    _FROM["resource.k8s.io", "v1beta1", _resource] = partial(to_beta1, _kind)
    _TO["resource.k8s.io", "v1beta1", _resource] = partial(from_beta1, _kind)


def from_hub(info: ResourceInfo, obj: Object) -> Object:
    """A stored object in the version of `info`."""
    convert = _FROM.get((info.group, info.version, info.resource))
    tree = convert(obj.tree) if convert is not None else obj.tree
    tree = {**tree, "apiVersion": info.api_version, "kind": info.kind}
    tree = decode(info.type_name, tree)
    if info.resource == "events":
        tree.setdefault("deprecatedFirstTimestamp", None)
        tree.setdefault("deprecatedLastTimestamp", None)
    return Object(tree)


def to_hub(info: ResourceInfo, tree: Tree, hub: ResourceInfo | None = None) -> Tree:
    """A tree of the version of `info` in the stored version."""
    convert = _TO.get((info.group, info.version, info.resource))
    if convert is not None:
        tree = convert(tree)
    group, version = info.hub
    tree = {**tree, "apiVersion": f"{group}/{version}" if group else version, "kind": info.kind}
    return tree if hub is None else decode(hub.type_name, tree)
