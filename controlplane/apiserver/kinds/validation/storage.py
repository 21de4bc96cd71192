"""Validation of claims, volumes and storage kinds. Upstream: pkg/apis/{core,storage}/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api import quantity
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.resources import validate_positive
from controlplane.apiserver.kinds.validation.selectors import (
    label_name,
    validate_label_selector,
    validate_node_selector,
)
from controlplane.apiserver.kinds.validation.shared import immutable, non_negative_field
from controlplane.apiserver.kinds.validation.volumes import (
    csi_driver_name,
    path_no_backsteps,
    validate_sources,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import difference, internal

Tree = dict[str, Any]

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_SOURCES = frozenset(
    """
    gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd quobyte iscsi flexVolume
    cinder cephfs fc flocker azureFile vsphereVolume azureDisk photonPersistentDisk portworxVolume
    scaleIO local storageos csi
    """.split()
)


# -- claims --------------------------------------------------------------------------------------


def validate_claim(tree: Tree) -> list[FieldError]:
    """A persistent volume claim."""
    return validate_claim_spec(tree.get("spec") or {}, "spec")


def _access_modes(modes: list[str], path: str, missing: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not modes:
        errors.append(required(path, missing))
    for mode in modes:
        if mode not in _MODES:
            errors.append(not_supported(path, mode, _MODES))
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_claim_spec(spec: Tree, path: str) -> list[FieldError]:
    """A claim's spec, in a claim or in a template."""
    errors = _access_modes(
        spec.get("accessModes") or [], f"{path}.accessModes",
        "at least 1 access mode is required",
    )  # fmt: skip
    errors += validate_label_selector(spec.get("selector"), f"{path}.selector")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        errors.append(required(f"{path}.resources[storage]"))
    else:
        errors += validate_positive(size, f"{path}.resources[storage]")
    name = spec.get("storageClassName")
    if name:
        errors += [invalid(f"{path}.storageClassName", name, p) for p in names.dns_subdomain(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES))
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        errors += _data_source(source, f"{path}.dataSource")
    if ref is not None:
        errors += _data_source(ref, f"{path}.dataSourceRef")
    if ref is not None and "namespace" in ref and ref["namespace"]:
        if source is not None:
            errors.append(invalid(path, f"{path}.dataSource",
                                  "may not be specified when dataSourceRef.namespace is specified"
                                  ))  # fmt: skip
    elif source is not None and ref is not None:
        kept = {key: ref.get(key) for key in ("apiGroup", "kind", "name")}
        if kept != {key: source.get(key) for key in ("apiGroup", "kind", "name")}:
            errors.append(invalid(path, f"{path}.dataSource", "must match dataSourceRef"))
    attributes = spec.get("volumeAttributesClassName")
    if attributes:
        errors += [
            invalid(f"{path}.volumeAttributesClassName", attributes, p)
            for p in names.dns_subdomain(attributes)
        ]
    return errors


def _data_source(source: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("name"):
        errors.append(required(f"{path}.name"))
    kind = source.get("kind", "")
    if not kind:
        errors.append(required(f"{path}.kind"))
    group = source.get("apiGroup") or ""
    if not group and kind != "PersistentVolumeClaim":
        errors.append(invalid(path, kind, (
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        )))  # fmt: skip
    if group:
        errors += [invalid(path, group, problem) for problem in names.dns_subdomain(group)]
    return errors


_CLAIM_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims\n"
)


def validate_claim_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed claim: bound ones may grow, and be given to a volume once."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    if spec is was:
        return []
    errors = validate_claim(new)
    status = old.get("status") or {}
    merged = dict(spec)
    before = dict(was)
    if not was.get("volumeName"):
        for key in ("volumeName",):
            before.pop(key, None)
            if key in merged:
                before[key] = merged[key]
    if "storageClassName" in was or "storageClassName" in spec:
        old_class = _class_of(old)
        new_class = _class_of(new)
        if old_class is None and new_class is not None and not was.get("volumeName"):
            before["storageClassName"] = merged.get("storageClassName")
    bound = status.get("phase") == "Bound"
    if bound:
        for resource in ("resources",):
            kept = {k: v for k, v in (was.get(resource) or {}).items() if k != "requests"}
            requests = (merged.get(resource) or {}).get("requests")
            before[resource] = {**kept, "requests": requests} if requests is not None else kept
        if "volumeAttributesClassName" in merged:
            before["volumeAttributesClassName"] = merged["volumeAttributesClassName"]
    if merged != before:
        errors.append(forbidden("spec", _CLAIM_FIXED + difference(
            internal("ClaimSpec", before), internal("ClaimSpec", merged))))  # fmt: skip
    elif bound:
        errors += _claim_size(spec, was, status)
    errors += immutable(spec.get("volumeMode"), was.get("volumeMode"), "spec.volumeMode")
    return errors


def _class_of(tree: Tree) -> str | None:
    annotations = tree["metadata"].get("annotations") or {}
    found: str | None = annotations.get(_BETA_CLASS, (tree.get("spec") or {}).get(
        "storageClassName"))  # fmt: skip
    return found


def _claim_size(spec: Tree, was: Tree, status: Tree) -> list[FieldError]:
    new = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    old = ((was.get("resources") or {}).get("requests") or {}).get("storage")
    if new is None or old is None or quantity.parse(new).cmp(quantity.parse(old)) >= 0:
        return []
    path = "spec.resources.requests.storage"
    capacity = (status.get("capacity") or {}).get("storage")
    if capacity is not None and quantity.parse(new).cmp(quantity.parse(capacity)) > 0:
        return []
    return [forbidden(path, "field can not be less than status.capacity")]


_RESIZE_STATES = ("ControllerResizeInProgress", "ControllerResizeInfeasible",
                  "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending")  # fmt: skip


def validate_claim_status(new: Tree, _old: Tree) -> list[FieldError]:
    """A claim's status."""
    status = new.get("status") or {}
    errors: list[FieldError] = []
    if not (new["metadata"].get("resourceVersion")):
        errors.append(required("metadata.resourceVersion"))
    for name, text in sorted((status.get("capacity") or {}).items()):
        amount = quantity.parse(text)
        if amount.sign() < 0:
            errors.append(invalid(f"status.capacity[{name}]", amount.value(),
                                  "must be a valid resource quantity"))  # fmt: skip
    for name, state in sorted((status.get("allocatedResourceStatuses") or {}).items()):
        if name != "storage":
            errors += [
                invalid("status.allocatedResourceStatuses", name, p)
                for p in names.qualified_name(name)
            ]
        if state not in _RESIZE_STATES:
            errors.append(not_supported("status.allocatedResourceStatuses", name, _RESIZE_STATES,
                                        sort=False))  # fmt: skip
    return errors


# -- volumes -------------------------------------------------------------------------------------


def _pv_csi(source: Tree, path: str) -> list[FieldError]:
    errors = csi_driver_name(source.get("driver", ""), f"{path}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for key in ("controllerPublishSecretRef", "nodePublishSecretRef", "controllerExpandSecretRef",
                "nodeExpandSecretRef"):  # fmt: skip
        ref = source.get(key)
        if ref is not None:
            errors += [required(f"{path}.{key}.{part}") for part in ("name", "namespace")
                       if not ref.get(part)]  # fmt: skip
    return errors


def _local(source: Tree, path: str) -> list[FieldError]:
    text = source.get("path", "")
    if not text:
        return [required(f"{path}.path")]
    return path_no_backsteps(text, f"{path}.path")


def _source_part(spec: Tree) -> Tree:
    return {key: value for key, value in spec.items() if key in _SOURCES}


def validate_volume(tree: Tree) -> list[FieldError]:
    """A persistent volume."""
    spec = tree.get("spec") or {}
    capacity = spec.get("capacity") or {}
    errors: list[FieldError] = []
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(required("spec.accessModes"))
    for mode in modes:
        if mode not in _MODES:
            errors.append(not_supported("spec.accessModes", mode, _MODES))
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        errors.append(forbidden("spec.accessModes",
                                "may not use ReadWriteOncePod with other access modes"
                                ))  # fmt: skip
    if not capacity:
        errors.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", capacity, ("storage",)))
    for name, text in sorted(capacity.items()):
        path = f"spec.capacity[{name}]"
        amount = quantity.parse(text)
        if amount.sign() < 0:
            errors.append(invalid(path, amount.value(), "must be a valid resource quantity"))
        if amount.sign() <= 0:
            errors.append(invalid(path, text, "must be greater than zero"))
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    specified = False
    if affinity is not None:
        found = _volume_affinity(affinity, "spec.nodeAffinity")
        specified = not found
        errors += found
    errors += validate_sources(
        _source_part(spec), "spec", "must specify a volume type",
        overrides={"csi": _pv_csi, "local": _local},
    )  # fmt: skip
    if spec.get("local") is not None and not specified and affinity is None:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    if (spec.get("hostPath") or {}).get("path") == "/" and policy == "Recycle":
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy",
                                "may not be 'recycle' for a hostPath mount of '/'"
                                ))  # fmt: skip
    name = spec.get("storageClassName", "")
    if name:
        errors += [invalid("spec.storageClassName", name, p) for p in names.dns_subdomain(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, _VOLUME_MODES))
    return errors


def _volume_affinity(affinity: Tree, path: str) -> list[FieldError]:
    if affinity.get("required") is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return validate_node_selector(affinity["required"], f"{path}.required")


def validate_volume_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed volume; its source stays."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    if spec is was:
        return []
    errors = validate_volume(new)
    source, before = _source_part(spec), _source_part(was)
    if source != before:
        errors.append(forbidden("spec.persistentvolumesource", (
            "spec.persistentvolumesource is immutable after creation\n"
            + difference(internal("VolumeSource", before), internal("VolumeSource", source))
        )))  # fmt: skip
    errors += immutable(spec.get("volumeMode"), was.get("volumeMode"), "spec.volumeMode")
    return errors


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
        from controlplane.apiserver.schema.field_errors import too_long

        errors.append(too_long("parameters", 256 * 1024))
    policy = tree.get("reclaimPolicy")
    if policy is not None and policy not in ("Delete", "Retain"):
        errors.append(not_supported("reclaimPolicy", policy, ("Delete", "Retain")))
    mode = tree.get("volumeBindingMode")
    if mode is None:
        errors.append(required("volumeBindingMode"))
    elif mode not in ("Immediate", "WaitForFirstConsumer"):
        errors.append(not_supported("volumeBindingMode", mode,
                                    ("Immediate", "WaitForFirstConsumer")))  # fmt: skip
    for index, term in enumerate(tree.get("allowedTopologies") or ()):
        errors += _topology_term(term, f"allowedTopologies[{index}]")
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
    errors = immutable(new.get("parameters"), old.get("parameters"), "parameters")
    for key in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
        errors += immutable(new.get(key), old.get(key), key)
    return errors


_FS_GROUP = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")


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
        if not driver.get("nodeID"):
            errors.append(required(f"{path}.nodeID"))
        errors += non_negative_field(driver.get("allocatable") or {}, "count",
                                     f"{path}.allocatable")  # fmt: skip
        for key in driver.get("topologyKeys") or ():
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
    errors = immutable(new.get("driverName"), old.get("driverName"), "driverName")
    return errors + immutable(new.get("parameters"), old.get("parameters"), "parameters")


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
    if name is None and source.get("inlineVolumeSpec") is None:
        errors.append(required("spec.source", "must specify exactly one of inlineVolumeSpec and "
                                              "persistentVolumeName"))  # fmt: skip
    elif name is not None and not name:
        errors.append(required("spec.source.persistentVolumeName"))
    elif name is not None:
        errors += [
            invalid("spec.source.persistentVolumeName", name, p) for p in names.dns_subdomain(name)
        ]
    node = spec.get("nodeName", "")
    errors += [invalid("spec.nodeName", node, p) for p in names.dns_subdomain(node)]
    return errors


def validate_attachment_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed volume attachment; its spec stays."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_attachment(new)
    if spec != was:
        source = spec.get("source") or {}
        shown = {
            "Attacher": spec.get("attacher", ""),
            "Source": {"PersistentVolumeName": source.get("persistentVolumeName"),
                       "InlineVolumeSpec": source.get("inlineVolumeSpec")},
            "NodeName": spec.get("nodeName", ""),
        }  # fmt: skip
        errors.append(invalid("spec", shown, "field is immutable"))
    return errors


__all__ = [
    "validate_attachment", "validate_attachment_update", "validate_attributes_class",
    "validate_attributes_class_update", "validate_claim", "validate_claim_spec",
    "validate_claim_status", "validate_claim_update", "validate_csi_driver",
    "validate_csi_driver_update", "validate_csi_node", "validate_storage_capacity",
    "validate_storage_class", "validate_storage_class_update", "validate_volume",
    "validate_volume_update",
]  # fmt: skip
