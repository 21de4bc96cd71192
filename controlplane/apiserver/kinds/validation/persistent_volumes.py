"""Validation of persistent volumes. Upstream: ValidatePersistentVolume* in pkg/apis/core/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import meta_step
from controlplane.apiserver.kinds.validation.paths import path_no_backsteps
from controlplane.apiserver.kinds.validation.selectors import (
    validate_node_selector,
)
from controlplane.apiserver.kinds.validation.shared import (
    ACCESS_MODES,
    VOLUME_MODES,
    immutable,
)
from controlplane.apiserver.kinds.validation.volumes import csi_driver_name, validate_sources
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import difference, internal

__all__ = ["validate_inline_volume", "validate_volume", "validate_volume_update"]

_RECLAIM = ("Delete", "Recycle", "Retain")
_SOURCES = frozenset(
    """
    gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd quobyte iscsi flexVolume
    cinder cephfs fc flocker azureFile vsphereVolume azureDisk photonPersistentDisk portworxVolume
    scaleIO local storageos csi
    """.split()
)

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
            space, place = ref.get("namespace", ""), f"{path}.{key}.namespace"
            if space and ref.get("name"):
                errors += [invalid(place, space, p) for p in names.dns_label(space)]
    return errors


def _local(source: Tree, path: str) -> list[FieldError]:
    text = source.get("path", "")
    if not text:
        return [required(f"{path}.path")]
    return path_no_backsteps(text, f"{path}.path")


def _source_part(spec: Tree) -> Tree:
    return {key: value for key, value in spec.items() if key in _SOURCES}


def validate_volume(tree: Tree, missing: Tree | None = None) -> list[FieldError]:
    """A persistent volume. `missing` is how a capacity was written that has nothing in it."""
    spec = tree.get("spec") or {}
    capacity = spec.get("capacity") or {}
    errors: list[FieldError] = []
    errors += _access_modes(spec, "spec.accessModes")
    if not capacity:
        errors.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", capacity or missing, ("storage",)))
    for name, text in sorted(capacity.items()):
        path = f"spec.capacity[{name}]"
        amount = quantity.parse(text)
        if amount.value() < 0:
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
        overrides={"csi": _pv_csi, "local": _local}, tolerated="flexVolume",
    )  # fmt: skip
    alone = len(_source_part(spec)) == 1
    if spec.get("local") is not None and alone and not specified and affinity is None:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    if (spec.get("hostPath") or {}).get("path") == "/" and policy == "Recycle":
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy",
                                "may not be 'recycle' for a hostPath mount of '/'"
                                ))  # fmt: skip
    name = spec.get("storageClassName", "")
    if name:
        errors += [invalid("spec.storageClassName", name, p) for p in names.dns_subdomain(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    return errors + _attributes_class(spec)


def _access_modes(spec: Tree, path: str) -> list[FieldError]:
    modes = spec.get("accessModes") or []
    errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if not modes:
        errors.append(required(path))
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(path, text))
    return errors


_INLINE = "in the context of inline volumes"


def validate_inline_volume(spec: Tree, path: str) -> list[FieldError]:
    """A volume that stands in an attachment: a CSI volume, and nothing of what claims need."""
    refused = f"may not be specified {_INLINE}"
    errors = [forbidden(f"{path}.{key}", refused) for key in ("claimRef", "capacity")
              if spec.get(key) is not None]  # fmt: skip
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", f"has to be specified {_INLINE}"))
    errors += _access_modes(spec, f"{path}.accessModes")
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        place = f"{path}.persistentVolumeReclaimPolicy"
        errors.append(forbidden(place, f"may only be Retain {_INLINE}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(forbidden(f"{path}.nodeAffinity", refused))
    errors += validate_sources(
        _source_part(spec), path, "must specify a volume type",
        overrides={"csi": _pv_csi, "local": _local}, tolerated="flexVolume",
    )  # fmt: skip
    if spec.get("local") is not None and len(_source_part(spec)) == 1:
        text = "Local volume requires node affinity"
        errors.append(required(f"{path}.nodeAffinity", text))
    if spec.get("storageClassName"):
        errors.append(forbidden(f"{path}.storageClassName", refused))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        errors.append(forbidden(f"{path}.volumeMode", text))
    return errors + _attributes_class(spec, path)


def _attributes_class(spec: Tree, root: str = "spec") -> list[FieldError]:
    name, path = spec.get("volumeAttributesClassName"), f"{root}.volumeAttributesClassName"
    if name is None:
        return []
    errors = [] if name else [required(path, "an empty string is disallowed")]
    if name:
        errors += [invalid(path, name, p) for p in names.dns_subdomain(name)]
    if spec.get("csi") is None:
        text = "has to be specified when using volumeAttributesClassName"
        errors.append(required(f"{root}.csi", text))
    return errors


def _volume_affinity(affinity: Tree, path: str) -> list[FieldError]:
    if affinity.get("required") is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return validate_node_selector(affinity["required"], f"{path}.required")


def validate_volume_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """A changed volume; its source stays. `written` is the spec as it was written.

    Everything is checked twice: upstream's strategy does so, and so does what it calls.
    """
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    meta = meta_step(new["metadata"], old["metadata"], names.dns_subdomain, "A", namespaced=False)
    if spec is was:
        return meta
    capacity = written.get("capacity") if isinstance(written, dict) else None
    whole = validate_volume(new, capacity)
    errors = whole + meta + whole
    source, before = _source_part(spec), _source_part(was)
    if source != before:
        errors.append(forbidden("spec.persistentvolumesource", (
            "spec.persistentvolumesource is immutable after creation\n"
            + difference(internal("VolumeSource", before), internal("VolumeSource", source, written))
        )))  # fmt: skip
    errors += immutable(spec.get("volumeMode"), was.get("volumeMode"), "volumeMode")
    if was.get("nodeAffinity") is not None:
        given = written.get("nodeAffinity") if isinstance(written, dict) else None
        errors += _affinity_kept(spec.get("nodeAffinity"), was["nodeAffinity"], given)
    return errors


def _affinity_kept(new: Tree | None, old: Tree, written: Any) -> list[FieldError]:
    """Where a volume can be reached stays; only an old label's name may become the new one."""
    if new == old or (new is not None and new == _renewed(old, new)):
        return []
    shown = None if new is None else internal("VolumeAffinity", new, written)
    text = "field is immutable, except for updating from beta label to GA"
    return [invalid("nodeAffinity", shown, text)]


_NEW_LABELS = {
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _renewed(old: Tree, new: Tree) -> Tree:
    """The old affinity with those labels renewed that the new one names by their new names."""
    terms = (old.get("required") or {}).get("nodeSelectorTerms") or []
    named = (new.get("required") or {}).get("nodeSelectorTerms") or []
    made = []
    for term, target in zip(terms, named, strict=False):
        wanted = [each.get("key") for each in target.get("matchExpressions") or ()]
        requirements = [
            {**each, "key": _NEW_LABELS[each["key"]]}
            if _NEW_LABELS.get(each.get("key", "")) in wanted[index : index + 1]
            else each
            for index, each in enumerate(term.get("matchExpressions") or ())
        ]
        made.append({**term, "matchExpressions": requirements} if requirements else term)
    made += terms[len(made) :]
    return {**old, "required": {**(old.get("required") or {}), "nodeSelectorTerms": made}}
