"""PersistentVolumes. Upstream: pkg/registry/core/persistentvolume, pkg/apis/core/validation."""

from __future__ import annotations

import posixpath
from typing import Any

from controlplane.api import quantity
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import (
    ACCESS_MODES,
    VOLUME_MODES,
    entries,
    immutable,
    optional_one_of,
    problems,
    when,
)
from controlplane.apiserver.kinds.core.persistent_volume_claims import class_text, modes_text
from controlplane.apiserver.kinds.core.pods.defaults import default_volume_source
from controlplane.apiserver.kinds.core.pods.warnings import OLD_VOLUMES, PLACES, node_term_warnings
from controlplane.apiserver.kinds.core.resources import resource_list
from controlplane.apiserver.kinds.core.volumes import validate_volume_source
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import meta_step
from controlplane.apiserver.kinds.selectors import validate_node_selector
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status
from controlplane.apiserver.kinds.trees import filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import difference, internal

__all__ = ["KIND", "validate_inline_volume"]


def default_volume(tree: Tree) -> Tree:
    """Defaults of a persistent volume."""

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
        spec = inside(spec, "capacity", resource_list)
        if "azureFile" in spec and "secretNamespace" not in spec["azureFile"]:
            spec = {**spec, "azureFile": {**spec["azureFile"], "secretNamespace": "default"}}
        return default_volume_source(spec)

    return inside(in_spec(tree, spec), "status", lambda s: filled(s, {"phase": "Pending"}))


_RECLAIM = ("Delete", "Recycle", "Retain")
_SOURCES = frozenset(
    """
    gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd quobyte iscsi flexVolume
    cinder cephfs fc flocker azureFile vsphereVolume azureDisk photonPersistentDisk portworxVolume
    scaleIO local storageos csi
    """.split()
)


def _source_part(spec: Tree) -> Tree:
    return {key: value for key, value in spec.items() if key in _SOURCES}


def validate_volume(tree: Tree, missing: Tree | None = None) -> list[FieldError]:
    """Return the errors of a persistent volume. `missing` is how a capacity was written that has nothing in it."""
    spec = tree.get("spec") or {}
    capacity = spec.get("capacity") or {}
    errors = _access_modes(spec, "spec.accessModes")
    errors += when(not capacity, required, "spec.capacity")
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", capacity or missing, ("storage",)))
    for name, text in sorted(capacity.items()):
        path = f"spec.capacity[{name}]"
        amount = quantity.parse(text)
        if amount.value() < 0:
            errors.append(invalid(path, amount.value(), "must be a valid resource quantity"))
        errors += when(amount.sign() <= 0, invalid, path, text, "must be greater than zero")
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    errors += when(
        policy and policy not in _RECLAIM,
        not_supported,
        "spec.persistentVolumeReclaimPolicy",
        policy,
        _RECLAIM,
    )
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        errors += _volume_affinity(affinity, "spec.nodeAffinity")
    errors += validate_volume_source(
        spec, "spec", tree["metadata"].get("name", ""), reachable=affinity is not None
    )
    path = (spec.get("hostPath") or {}).get("path", "")
    errors += when(
        policy == "Recycle" and path and posixpath.normpath(path) in ("/", "//"),
        forbidden,
        "spec.persistentVolumeReclaimPolicy",
        "may not be 'recycle' for a hostPath mount of '/'",
    )
    name = spec.get("storageClassName", "")
    if name:
        errors += problems("spec.storageClassName", name, names.dns_subdomain(name))
    mode = spec.get("volumeMode")
    errors += optional_one_of(mode, "spec.volumeMode", VOLUME_MODES)
    return errors + _attributes_class(spec)


def _access_modes(spec: Tree, path: str) -> list[FieldError]:
    modes = spec.get("accessModes") or []
    errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    errors += when(not modes, required, path)
    if "ReadWriteOncePod" in modes and len({*modes} & {*ACCESS_MODES}) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(path, text))
    return errors


_INLINE = "in the context of inline volumes"


def validate_inline_volume(spec: Tree, path: str) -> list[FieldError]:
    """Return the errors of a volume that stands in an attachment: a CSI volume, and nothing of what claims need."""
    refused = f"may not be specified {_INLINE}"
    errors = [
        forbidden(f"{path}.{key}", refused)
        for key in ("claimRef", "capacity")
        if spec.get(key) is not None
    ]
    errors += when(
        spec.get("csi") is None, required, f"{path}.csi", f"has to be specified {_INLINE}"
    )
    errors += _access_modes(spec, f"{path}.accessModes")
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        place = f"{path}.persistentVolumeReclaimPolicy"
        errors.append(forbidden(place, f"may only be Retain {_INLINE}"))
    errors += when(spec.get("nodeAffinity") is not None, forbidden, f"{path}.nodeAffinity", refused)
    errors += validate_volume_source(spec, path, "", reachable=False)
    errors += when(spec.get("storageClassName"), forbidden, f"{path}.storageClassName", refused)
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
        errors += problems(path, name, names.dns_subdomain(name))
    if spec.get("csi") is None:
        text = "has to be specified when using volumeAttributesClassName"
        errors.append(required(f"{root}.csi", text))
    return errors


def _volume_affinity(affinity: Tree, path: str) -> list[FieldError]:
    if affinity.get("required") is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return validate_node_selector(affinity["required"], f"{path}.required")


def validate_volume_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a changed volume; its source stays. `written` is the spec as it was written.

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
    source = _with_expansion(source, before)
    if source != before:
        errors.append(
            forbidden(
                "spec.persistentvolumesource",
                (
                    "spec.persistentvolumesource is immutable after creation\n"
                    + difference(
                        internal("VolumeSource", before), internal("VolumeSource", source, written)
                    )
                ),
            )
        )
    errors += immutable(spec.get("volumeMode"), was.get("volumeMode"), "volumeMode")
    if was.get("nodeAffinity") is not None:
        given = written.get("nodeAffinity") if isinstance(written, dict) else None
        errors += _affinity_kept(spec.get("nodeAffinity"), was["nodeAffinity"], given)
    key = "volumeAttributesClassName"
    text = "update from non-nil value to nil is forbidden"
    errors += when(
        was.get(key) is not None and spec.get(key) is None, forbidden, f"spec.{key}", text
    )
    return errors


def _with_expansion(source: Tree, before: Tree) -> Tree:
    """The source without the secret for expansion, where it is given for the first time."""
    key, csi, was = "controllerExpandSecretRef", source.get("csi"), before.get("csi")
    if csi is None or was is None or was.get(key) is not None or csi.get(key) is None:
        return source
    return {**source, "csi": {name: value for name, value in csi.items() if name != key}}


def _affinity_kept(new: Tree | None, old: Tree, written: Any) -> list[FieldError]:
    """Return the errors of a change of a volume's node affinity; only an old label's name may become the new one."""
    if new == old or (new is not None and _keyed(new) == _keyed(_renewed(old, new))):
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


def _keyed(affinity: Tree) -> list[Any]:
    """The affinity's terms with each key said, empty or not."""
    return [
        {
            **term,
            "matchExpressions": [
                {"key": "", **each} for each in term.get("matchExpressions") or ()
            ],
        }
        for term in (affinity.get("required") or {}).get("nodeSelectorTerms") or ()
    ]


def _renewed(old: Tree, new: Tree) -> Tree:
    """The old affinity with those labels renewed that the new one names by their new names."""
    terms = (old.get("required") or {}).get("nodeSelectorTerms") or []
    named = (new.get("required") or {}).get("nodeSelectorTerms") or []
    made: list[Tree] = []
    for term, target in zip(terms, named, strict=False):
        wanted = [each.get("key", "") for each in target.get("matchExpressions") or ()]
        # Upstream looks a label up that may be none of these: such a one may become empty.
        requirements = [
            {**each, "key": wanted[index]}
            if wanted[index : index + 1] == [_NEW_LABELS.get(each.get("key", ""), "")]
            else each
            for index, each in enumerate(term.get("matchExpressions") or ())
        ]
        made.append({**term, "matchExpressions": requirements} if requirements else term)
    made += terms[len(made) :]
    return {**old, "required": {**(old.get("required") or {}), "nodeSelectorTerms": made}}


def volume_warnings(tree: Tree) -> list[str]:
    """Warnings for a persistent volume."""
    spec, found = tree.get("spec") or {}, []
    key = "volume.beta.kubernetes.io/storage-class"
    if key in (tree["metadata"].get("annotations") or {}):
        found.append(
            f'metadata.annotations[{key}]: deprecated since v1.8; use "storageClassName" '
            "attribute instead"
        )
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        found.append(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
            "Instead, the recommended approach is to use dynamic provisioning."
        )
    needed = (spec.get("nodeAffinity") or {}).get("required") or {}
    for term, place in entries(needed, "nodeSelectorTerms", "spec.nodeAffinity.required"):
        found += node_term_warnings(term, place)
    return found + [
        f"spec.{PLACES.get(source, source)}: {OLD_VOLUMES[source]}"
        for source in _OLD_PV_SOURCES
        if spec.get(source) is not None
    ]


_OLD_PV_SOURCES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")


class VolumeStrategy(Strategy):
    """Persistent volumes note when their phase changed."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        status = {"phase": "Pending", "lastPhaseTransitionTime": format_time(ctx.now)}
        return {**tree, "status": status}

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object of this kind."""
        return validate_volume(tree, ctx.written("spec", "capacity"))

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_volume_update(new, old, ctx.written("spec"))

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return a status update of this kind with the fields that it cannot change."""
        new = with_status(new, old, "spec")
        status, was = new.get("status") or {}, old.get("status") or {}
        time, before = status.get("lastPhaseTransitionTime"), was.get("lastPhaseTransitionTime")
        if time is not None and time != before:
            return new
        time = before if status.get("phase") == was.get("phase") else format_time(ctx.now)
        if time is None:
            return new
        return {**new, "status": {**status, "lastPhaseTransitionTime": time}}


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    phase = "Terminating" if tree["metadata"].get("deletionTimestamp") else state.get("phase", "")
    ref = spec.get("claimRef")
    claim = f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""
    return [
        name_of(tree),
        part_of(spec, "capacity").get("storage", "0"),
        modes_text(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        claim,
        class_text(tree),
        spec.get("volumeAttributesClassName") or "<unset>",
        state.get("reason", ""),
        age_of(tree, now),
        spec.get("volumeMode") or "<unset>",
    ]


KIND = Kind(
    strategy=VolumeStrategy(
        default=default_volume,
        warn=volume_warnings,
        returns_deleted=True,
        meta_steps="A",
    ),
    row=_row,
)
