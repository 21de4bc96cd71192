"""PersistentVolumeClaims: defaults, rules and permitted changes.

Upstream: pkg/registry/core/persistentvolumeclaim, pkg/apis/core/validation.
"""

from __future__ import annotations

from typing import Any

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import (
    ACCESS_MODES,
    VOLUME_MODES,
    immutable,
    one_of,
    optional_one_of,
    present,
    problems,
    when,
)
from controlplane.apiserver.kinds.core.resources import (
    is_native,
    resources,
    validate_amount,
    validate_positive,
)
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.strategy import Context, Strategy, with_status, without
from controlplane.apiserver.kinds.trees import filled, in_spec, inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.internal_form import difference, internal

__all__ = ["KIND", "claim_warnings", "class_text", "modes_text", "validate_claim_spec"]


def default_claim(tree: Tree) -> Tree:
    """Defaults of a persistent volume claim."""
    tree = in_spec(
        tree,
        lambda spec: inside(filled(spec, {"volumeMode": "Filesystem"}), "resources", resources),
    )
    return inside(tree, "status", lambda s: filled(s, {"phase": "Pending"}))


_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def validate_claim(tree: Tree) -> list[FieldError]:
    """Return the errors of a persistent volume claim."""
    return validate_claim_spec(tree.get("spec") or {}, "spec")


def _access_modes(modes: list[str], path: str, missing: str) -> list[FieldError]:
    errors = when(not modes, required, path, missing)
    for mode in modes:
        errors += one_of(mode, path, ACCESS_MODES)
    text = "may not use ReadWriteOncePod with other access modes"
    errors += when(
        "ReadWriteOncePod" in modes and len({*modes} & {*ACCESS_MODES}) > 1, forbidden, path, text
    )
    return errors


def validate_claim_spec(spec: Tree, path: str) -> list[FieldError]:
    """Return the errors of a claim's spec, in a claim or in a template."""
    errors = _access_modes(
        spec.get("accessModes") or [],
        f"{path}.accessModes",
        "at least 1 access mode is required",
    )
    errors += validate_label_selector(spec.get("selector"), f"{path}.selector")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is None:
        errors.append(required(f"{path}.resources[storage]"))
    else:
        errors += validate_positive(size, f"{path}.resources[storage]")
    name = spec.get("storageClassName")
    if name:
        errors += problems(f"{path}.storageClassName", name, names.dns_subdomain(name))
    mode = spec.get("volumeMode")
    errors += optional_one_of(mode, f"{path}.volumeMode", VOLUME_MODES)
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        errors += _data_source(source, f"{path}.dataSource")
    if ref is not None:
        errors += _data_source(ref, f"{path}.dataSourceRef")
    if ref is not None and "namespace" in ref and ref["namespace"]:
        if source is not None:
            text = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid(path, {}, text))
    elif source is not None and ref is not None:
        kept = {key: ref.get(key) for key in ("apiGroup", "kind", "name")}
        if kept != {key: source.get(key) for key in ("apiGroup", "kind", "name")}:
            errors.append(
                invalid(path, {}, "must match dataSourceRef")
            )  # {}: as upstream prints it
    attributes = spec.get("volumeAttributesClassName")
    if attributes:
        errors += problems(
            f"{path}.volumeAttributesClassName", attributes, names.dns_subdomain(attributes)
        )
    return errors


def _data_source(source: Tree, path: str) -> list[FieldError]:
    errors = present(source, "name", path)
    kind = source.get("kind", "")
    errors += when(not kind, required, f"{path}.kind")
    group = source.get("apiGroup") or ""
    text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
    errors += when(not group and kind != "PersistentVolumeClaim", invalid, path, kind, text)
    if group:
        place = f"{path}.apiGroup"
        errors += problems(place, group, names.dns_subdomain(group))
    return errors


_CLAIM_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims\n"
)


def validate_claim_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a changed claim: bound ones may grow, and be given to a volume once.

    `written` is the spec as it was written.
    """
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    if spec is was:
        return []
    errors = validate_claim(new)
    status = old.get("status") or {}
    merged = dict(spec)
    before = dict(was)
    if not was.get("volumeName"):
        before.pop("volumeName", None)
        if "volumeName" in merged:
            before["volumeName"] = merged["volumeName"]
    noted, told = (_annotated_class(each) for each in (old, new))
    wanted = spec.get("storageClassName")
    upgrades = "storageClassName" not in was and wanted is not None
    if noted is not None and upgrades and wanted == noted and told in (None, noted):
        del merged["storageClassName"]
    else:
        path = f"metadata.annotations.{_BETA_CLASS}"
        errors += immutable(told or "", noted or "", path)
        if upgrades and noted in (None, wanted):
            del merged["storageClassName"]
    if status.get("phase") == "Bound":
        asked = merged.get("resources") or {}
        if "requests" in asked:
            size = ((was.get("resources") or {}).get("requests") or {}).get("storage", "0")
            requests = {**asked["requests"], "storage": size}
            merged["resources"] = {**asked, "requests": requests}
        merged.pop("volumeAttributesClassName", None)
        if "volumeAttributesClassName" in was:
            merged["volumeAttributesClassName"] = was["volumeAttributesClassName"]
    if merged != before:
        errors.append(
            forbidden(
                "spec",
                _CLAIM_FIXED
                + difference(internal("ClaimSpec", before), internal("ClaimSpec", merged, written)),
            )
        )
    errors += _claim_size(spec, was, status)
    errors += immutable(spec.get("volumeMode"), was.get("volumeMode"), "volumeMode")
    path, name = "spec.volumeAttributesClassName", spec.get("volumeAttributesClassName")
    applied = status.get("currentVolumeAttributesClassName")
    if name != was.get("volumeAttributesClassName") and applied is not None and not name:
        what = "nil" if name is None else "empty string"
        text = (
            f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        )
        errors.append(forbidden(path, text))
    return errors


def _annotated_class(tree: Tree) -> str | None:
    annotations = tree["metadata"].get("annotations") or {}
    found: str | None = annotations.get(_BETA_CLASS)
    return found


def _claim_size(spec: Tree, was: Tree, status: Tree) -> list[FieldError]:
    """A claim may ask for less than before, but for more than it has. What is not there is zero."""
    new, old, capacity = (
        quantity.parse(amounts.get("storage", "0"))
        for amounts in (
            (spec.get("resources") or {}).get("requests") or {},
            (was.get("resources") or {}).get("requests") or {},
            status.get("capacity") or {},
        )
    )
    if new.cmp(old) >= 0 or new.cmp(capacity) > 0:
        return []
    path = "spec.resources.requests.storage"
    return [forbidden(path, "field can not be less than status.capacity")]


_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)


def validate_claim_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Return the errors of a claim's status."""
    status = new.get("status") or {}
    errors = when(
        not (new["metadata"].get("resourceVersion")), required, "metadata.resourceVersion"
    )
    for name, text in sorted((status.get("capacity") or {}).items()):
        amount = quantity.parse(text)
        if amount.sign() < 0:
            problem = "must be a valid resource quantity"
            errors.append(invalid(f"status.capacity[{name}]", amount.value(), problem))
    path = "status.allocatedResourceStatuses"
    for name, state in sorted((status.get("allocatedResourceStatuses") or {}).items()):
        errors += _allocated_name(name, path)
        errors += when(
            state not in _RESIZE_STATES, not_supported, path, name, _RESIZE_STATES, sort=False
        )
    path = "status.allocatedResources"
    for name, text in sorted((status.get("allocatedResources") or {}).items()):
        errors += _allocated_name(name, path)
        amount = quantity.parse(text)
        if amount.sign() < 0:
            detail = "must be a valid resource quantity"
            errors.append(invalid(f"{path}[{name}]", amount.value(), detail))
        else:
            errors += validate_amount("storage", text, f"{path}[{name}]")
    return errors


def _allocated_name(name: str, path: str) -> list[FieldError]:
    """Return the errors of a resource of a claim: storage, or one of another domain."""
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    errors += when(
        not errors and is_native(name) and name != "storage",
        not_supported,
        path,
        name,
        ("storage",),
    )
    return errors


def claim_warnings(spec: Tree, path: str) -> list[str]:
    """Warnings for the spec of a persistent volume claim, in a claim or in a template."""
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is None or not quantity.parse(text).milli_value() % 1000:
        return []
    place = f"{path}.resources.requests[storage]"
    return [f'{place}: fractional byte value "{text}" is invalid, must be an integer']


class ClaimStrategy(Strategy):
    """Persistent volume claims."""

    def settles_on_update(self, ctx: Context, sub: str, old: Tree) -> bool:
        """Return whether the first update is a write though it changes nothing."""
        return sub in ("", "status")

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        tree = {**tree, "status": {"phase": "Pending"}}
        return self._source(tree)

    def _source(self, tree: Tree) -> Tree:
        """Copy dataSource and dataSourceRef to each other; drop sources of unsupported kinds."""
        spec = tree["spec"]
        source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
        if ref is not None and ref.get("namespace") is not None:
            spec, ref = without(spec, "dataSourceRef"), None
        if source is not None and ref is None and not _known_source(source):
            spec = without(spec, "dataSource")
        tree = tree if spec is tree["spec"] else {**tree, "spec": spec}
        source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
        if source is not None and ref is None:
            copied = {key: source[key] for key in ("apiGroup", "kind", "name") if key in source}
            return {**tree, "spec": {**spec, "dataSourceRef": copied}}
        if ref is not None and source is None and "namespace" not in ref:
            copied = {key: ref[key] for key in ("apiGroup", "kind", "name") if key in ref}
            return {**tree, "spec": {**spec, "dataSource": copied}}
        return tree

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = with_status(new, old)
        was = old.get("spec") or {}
        return new if "dataSource" in was or "dataSourceRef" in was else self._source(new)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        return claim_warnings(tree.get("spec") or {}, "spec")

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return validate_claim_update(new, old, ctx.written("spec"))


def _known_source(source: Tree) -> bool:
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    return (group, kind) in (
        ("", "PersistentVolumeClaim"),
        ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    )


def modes_text(modes: list[str] | None) -> str:
    """Access modes in their short form."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    given = modes or []
    return ",".join(text for mode, text in short.items() if mode in given)


def class_text(tree: Tree) -> str:
    """The class of a volume or claim: the old annotation wins."""
    annotations = tree["metadata"].get("annotations") or {}
    if _BETA_CLASS in annotations:
        return str(annotations[_BETA_CLASS])
    return part_of(tree, "spec").get("storageClassName") or ""


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    phase = "Terminating" if tree["metadata"].get("deletionTimestamp") else state.get("phase", "")
    volume = spec.get("volumeName", "")
    capacity = modes = ""
    if volume:
        modes = modes_text(state.get("accessModes"))
        capacity = part_of(state, "capacity").get("storage", "0")
    return [
        name_of(tree),
        phase,
        volume,
        capacity,
        modes,
        class_text(tree),
        spec.get("volumeAttributesClassName", "<unset>"),
        age_of(tree, now),
        spec.get("volumeMode") or "<unset>",
    ]


KIND = Kind(
    strategy=ClaimStrategy(
        default=default_claim,
        rule=validate_claim,
        status_rule=validate_claim_status,
        returns_deleted=True,
        meta_steps="UA",
    ),
    row=_row,
)
