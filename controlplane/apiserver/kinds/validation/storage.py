"""Validation of claims, volumes and storage kinds. Upstream: pkg/apis/{core,storage}/validation."""

from __future__ import annotations

from collections import Counter
from typing import Any

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.strategy import without
from controlplane.apiserver.kinds.validation.persistent_volumes import validate_inline_volume
from controlplane.apiserver.kinds.validation.selectors import (
    label_name,
    validate_label_selector,
)
from controlplane.apiserver.kinds.validation.shared import immutable, non_negative_field
from controlplane.apiserver.kinds.validation.volumes import csi_driver_name
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from controlplane.apiserver.schema.field_order import in_order
from controlplane.apiserver.schema.internal_form import internal
from controlplane.apiserver.schema.work import spend

__all__ = [
    "validate_attachment",
    "validate_attachment_update",
    "validate_attributes_class",
    "validate_attributes_class_update",
    "validate_csi_driver",
    "validate_csi_driver_update",
    "validate_csi_node",
    "validate_csi_node_update",
    "validate_storage_capacity",
    "validate_storage_capacity_update",
    "validate_storage_class",
    "validate_storage_class_update",
]


# -- classes and drivers -------------------------------------------------------------------------


def validate_storage_class(tree: Tree) -> list[FieldError]:
    """A storage class."""
    errors: list[FieldError] = []
    provisioner = tree.get("provisioner", "")
    if not provisioner:
        errors.append(required("provisioner"))
    else:
        lower = provisioner.lower()
        errors += [invalid("provisioner", lower, p) for p in names.qualified_name(lower)]
    parameters = tree.get("parameters") or {}
    for key in sorted(parameters):
        if not key:
            errors.append(invalid("parameters", key, "field can not be empty."))
    if sum(len(k) + len(v) for k, v in parameters.items()) > 256 * 1024:
        errors.append(too_long("parameters", 256 * 1024))
    policy = tree.get("reclaimPolicy")
    if policy and policy not in ("Delete", "Retain"):
        errors.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
    mode = tree.get("volumeBindingMode")
    if mode is None:
        errors.append(required("volumeBindingMode"))
    elif mode not in ("Immediate", "WaitForFirstConsumer"):
        errors.append(not_supported("volumeBindingMode", mode,
                                    ("Immediate", "WaitForFirstConsumer")))  # fmt: skip
    terms = tree.get("allowedTopologies") or ()
    known: Counter[frozenset[tuple[str, frozenset[str]]]] = Counter({frozenset(): len(terms)})
    for index, term in enumerate(terms):
        errors += _topology_term(term, f"allowedTopologies[{index}]")
        required_values = {
            each.get("key", ""): frozenset(each.get("values") or ())
            for each in term.get("matchLabelExpressions") or ()
        }
        place = f"allowedTopologies[{index}].matchLabelExpressions"
        asked = frozenset(required_values.items())
        spend(known[asked])
        errors += [duplicate(place, "")] * known[asked]  # as often as upstream
        known[asked] += 1
    return errors


def _topology_term(term: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, req in enumerate(term.get("matchLabelExpressions") or ()):
        place = f"{path}.matchLabelExpressions[{index}]"
        values = req.get("values") or []
        if not values:
            errors.append(required(f"{place}.values"))
        listed: dict[str, None] = {}
        for number, value in enumerate(values):
            if value in listed:
                errors.append(duplicate(f"{place}.values[{number}]", value))
            listed[value] = None
        key = req.get("key", "")
        errors += label_name(key, f"{place}.key")
        if key in seen:
            errors.append(duplicate(f"{place}.key", key))
        seen[key] = None
    return errors


def validate_storage_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed storage class; almost nothing may change."""
    errors = validate_storage_class(new)
    errors += immutable(new.get("parameters"), old.get("parameters"), "parameters")
    for key in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(new.get(key), old.get(key), key)
    return errors


_FS_GROUP = ("File", "None", "ReadWriteOnceWithFSType")

_LIFECYCLES = ("Persistent", "Ephemeral")
MIN_PERIOD = 10
"""Seconds between two looks at what a node can hold, at least."""
MAX_NODE_ID = 192


def validate_csi_driver(tree: Tree) -> list[FieldError]:
    """A CSI driver."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    if len(tree["metadata"].get("name", "")) > 63:
        errors += csi_driver_name(tree["metadata"]["name"], "metadata.name")
    for key in ("attachRequired", "podInfoOnMount", "storageCapacity"):
        if key not in spec:
            path = "spec.attachedRequired" if key == "attachRequired" else f"spec.{key}"
            errors.append(required(path))
    policy = spec.get("fsGroupPolicy")
    if policy is None:
        errors.append(required("spec.fsGroupPolicy"))
    elif policy not in _FS_GROUP:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP))
    audiences: dict[str, None] = {}
    for index, request in enumerate(spec.get("tokenRequests") or ()):
        path = f"spec.tokenRequests[{index}]"
        audience = request.get("audience", "")
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences[audience] = None
        seconds = request.get("expirationSeconds")
        if seconds is None:
            continue
        if seconds < 600:
            errors.append(invalid(f"{path}.expirationSeconds", seconds,
                                  "may not specify a duration less than 10 minutes"
                                  ))  # fmt: skip
        if seconds > 1 << 32:
            errors.append(invalid(f"{path}.expirationSeconds", seconds,
                                  "may not specify a duration larger than 2^32 seconds"
                                  ))  # fmt: skip
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLES:
            errors.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES,
                                        sort=False))  # fmt: skip
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < MIN_PERIOD:
        text = f"must be greater than or equal to {MIN_PERIOD} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, (
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        )))  # fmt: skip
    return errors


def validate_csi_driver_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed CSI driver."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_csi_driver(new)
    errors += immutable(spec.get("attachRequired"), was.get("attachRequired"),
                        "spec.attachedRequired")  # fmt: skip
    return errors + immutable(
        spec.get("volumeLifecycleModes"), was.get("volumeLifecycleModes"),
        "spec.volumeLifecycleModes",
    )  # fmt: skip


def validate_csi_node(tree: Tree) -> list[FieldError]:
    """A CSI node."""
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, driver in enumerate((tree.get("spec") or {}).get("drivers") or ()):
        path = f"spec.drivers[{index}]"
        name = driver.get("name", "")
        errors += csi_driver_name(name, f"{path}.name")
        node = driver.get("nodeID", "")
        if not node:
            errors.append(required(f"{path}.nodeID"))
        if len(node.encode()) > MAX_NODE_ID:
            text = f"must be {MAX_NODE_ID} characters or less"
            errors.append(invalid(f"{path}.nodeID", node, text))
        errors += non_negative_field(driver.get("allocatable") or {}, "count",
                                     f"{path}.allocatable")  # fmt: skip
        keys: dict[str, None] = {}
        for key in driver.get("topologyKeys") or ():
            if not key:
                errors.append(required(path))
            if key in keys:
                errors.append(duplicate(path, key))
            keys[key] = None
            errors += label_name(key, path)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen[name] = None
    return errors


def validate_storage_capacity(tree: Tree) -> list[FieldError]:
    """A CSI storage capacity."""
    errors = validate_label_selector(tree.get("nodeTopology"), "nodeTopology")
    name = tree.get("storageClassName", "")
    errors += [invalid("storageClassName", name, p) for p in names.dns_subdomain(name)]
    capacity = tree.get("capacity")
    if capacity is not None and quantity.parse(capacity).sign() < 0:
        errors.append(invalid("capacity", capacity, "must be greater than or equal to 0"))
    return errors


def validate_storage_capacity_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed capacity stays with its nodes and class."""
    errors = validate_storage_capacity(new)
    selector = new.get("nodeTopology")
    shown = None if selector is None else in_order(_SELECTOR, selector)
    if selector != old.get("nodeTopology"):
        errors += immutable(shown, UNEQUAL, "nodeTopology")
    name, was = new.get("storageClassName", ""), old.get("storageClassName", "")
    return errors + immutable(name, was, "storageClassName")


_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
UNEQUAL = object()


def validate_csi_node_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed CSI node; a driver that stays stays as it is, but for what it can hold."""
    errors = validate_csi_node(new)
    before = {each.get("name", ""): each for each in (old.get("spec") or {}).get("drivers") or ()}
    for driver in (new.get("spec") or {}).get("drivers") or ():
        was = before.get(driver.get("name", ""))
        if was is not None and without(was, "allocatable") != without(driver, "allocatable"):
            shown = {
                "Name": driver.get("name", ""), "NodeID": driver.get("nodeID", ""),
                "TopologyKeys": driver.get("topologyKeys"), "Allocatable": None,
            }  # fmt: skip
            errors.append(invalid("spec.drivers", shown, "field is immutable"))
    return errors


def validate_attributes_class(tree: Tree) -> list[FieldError]:
    """A volume attributes class."""
    errors: list[FieldError] = []
    if not tree.get("driverName"):
        errors.append(required("driverName"))
    else:
        lower = tree["driverName"].lower()
        errors += [invalid("driverName", lower, p) for p in names.qualified_name(lower)]
    if not tree.get("parameters"):
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def validate_attributes_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed volume attributes class."""
    errors = [
        forbidden(key, f"updates to {key} are forbidden.")
        for key in ("driverName", "parameters")
        if new.get(key) != old.get(key)
    ]
    return errors + validate_attributes_class(new)


def validate_attachment(tree: Tree) -> list[FieldError]:
    """A volume attachment."""
    spec = tree.get("spec") or {}
    attacher = spec.get("attacher", "")
    errors: list[FieldError] = []
    if not attacher:
        errors.append(required("spec.attacher"))
    else:
        errors += csi_driver_name(attacher, "spec.attacher")
    source = spec.get("source") or {}
    name = source.get("persistentVolumeName")
    if name is not None and source.get("inlineVolumeSpec") is not None:
        text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        errors.append(forbidden("spec.source", text))
    elif name is None and source.get("inlineVolumeSpec") is None:
        errors.append(required("spec.source", "must specify exactly one of inlineVolumeSpec and "
                                              "persistentVolumeName"))  # fmt: skip
    elif name is None:
        errors += validate_inline_volume(source["inlineVolumeSpec"], "spec.source.inlineVolumeSpec")
    if name is not None:
        place = "spec.source.persistentVolumeName"
        if not name:
            errors.append(required(place, "must specify non empty persistentVolumeName"))
        errors += [invalid(place, name, p) for p in names.dns_subdomain(name)]
    node = spec.get("nodeName", "")
    errors += [invalid("spec.nodeName", node, p) for p in names.dns_subdomain(node)]
    return errors + _attachment_status(tree.get("status") or {})


def _attachment_status(status: Tree) -> list[FieldError]:
    """Return the errors of a volume attachment's status."""
    errors: list[FieldError] = []
    metadata = status.get("attachmentMetadata") or {}
    if sum(len(part.encode()) for pair in metadata.items() for part in pair) > _MAX_METADATA:
        errors.append(too_long("status.attachmentMetadata", _MAX_METADATA))
    for key in ("attachError", "detachError"):
        error = status.get(key)
        if error is None:
            continue
        message, code = error.get("message", ""), error.get("errorCode")
        if len(message.encode()) > _MAX_MESSAGE:
            errors.append(too_long(f"status.{key}.message", _MAX_METADATA))  # as upstream says
        if code is not None and not 0 <= code <= _MAX_INT32:
            text = f"must be between 0 and {_MAX_INT32}, inclusive"
            errors.append(invalid(f"status.{key}.errorCode", code, text))
    return errors


_MAX_METADATA = 256 * 1024
"""Bytes of all keys and values of what an attachment tells of itself."""
_MAX_MESSAGE = 1024
_MAX_INT32 = 2**31 - 1


def validate_attachment_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """A changed volume attachment; its spec stays. `written` is the spec as it was written."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_attachment(new)
    if spec != was:
        shown = internal("AttachmentSpec", spec, written)
        errors.append(invalid("spec", shown, "field is immutable"))
    return errors
