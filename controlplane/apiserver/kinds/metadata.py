"""Object metadata: what a create wipes, and the rules every kind shares.

Upstream: apimachinery pkg/api/validation/objectmeta.go, apiserver pkg/registry/rest/meta.go.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import immutable, name_at, problems, when
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    too_long,
)
from controlplane.apiserver.schema.work import spend

__all__ = [
    "finalizer_warnings",
    "validate_labels",
    "validate_meta",
    "validate_meta_update",
    "wiped",
]

NameRule = Callable[[str], names.Problems]

_WIPED = frozenset(
    ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
)
_ANNOTATION_LIMIT = 262144
_NAME = 3
"""Steps to look at a name that was not seen before."""
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def wiped(meta: Tree) -> Tree:
    """The metadata of a created object without what only the server may set."""
    if _WIPED.isdisjoint(meta):
        return meta
    return {key: value for key, value in meta.items() if key not in _WIPED}


def validate_labels(labels: Tree, path: str) -> list[FieldError]:
    """Keys are qualified names, values label values."""
    errors: list[FieldError] = []
    spend(_NAME * len(labels))
    for key in sorted(labels) if len(labels) > 1 else labels:
        errors += problems(path, key, names.label_key(key))
        value = labels[key]
        errors += problems(path, value, names.label_value(value))
    return errors


def validate_annotations(annotations: Tree, path: str) -> list[FieldError]:
    """Keys are qualified names (case ignored); the total size is limited."""
    errors: list[FieldError] = []
    total = 0
    spend(_NAME * len(annotations))
    for key, value in sorted(annotations.items()):
        errors += problems(path, key, names.qualified_name(key.lower()))
        total += len(key.encode()) + len(value.encode())
    return errors + when(total > _ANNOTATION_LIMIT, too_long, path, _ANNOTATION_LIMIT)


def _validate_owners(owners: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller: Tree | None = None
    everybody: list[Tree] = []
    for owner in owners:
        api_version = owner.get("apiVersion", "")
        group, slash, version = api_version.rpartition("/")
        if not slash:
            group, version = "", api_version
        text = "version must not be empty"
        errors += when(
            not version or "/" in group, invalid, f"{path}.apiVersion", api_version, text
        )
        errors += when(not owner.get("kind"), invalid, f"{path}.kind", "", "must not be empty")
        errors += when(not owner.get("name"), invalid, f"{path}.name", "", "must not be empty")
        errors += when(not owner.get("uid"), invalid, f"{path}.uid", "", "must not be empty")
        if owner.get("kind") == "Event" and api_version == "v1":
            text = f"{group}/{version}, Kind=Event is disallowed from being an owner"
            errors.append(invalid(path, _go_owner(owner), text))
        if owner.get("controller"):
            if controller is not None:
                everybody = everybody or [_go_owner(item) for item in owners]
                errors.append(
                    invalid(
                        path,
                        everybody,
                        (
                            'Only one reference can have Controller set to true. Found "true" in '
                            f"references for {_owner_name(controller)} and {_owner_name(owner)}"
                        ),
                    )
                )
            else:
                controller = owner
    return errors


def _owner_name(owner: Tree) -> str:
    return f"{owner.get('kind', '')}/{owner.get('name', '')}"


def _go_owner(owner: Tree) -> Tree:
    shown = {key: owner.get(key, "") for key in ("apiVersion", "kind", "name", "uid")}
    shown.update({key: owner[key] for key in ("controller", "blockOwnerDeletion") if key in owner})
    return shown


def _validate_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    spend(_NAME * len(finalizers))
    for finalizer in finalizers:
        errors += problems(path, finalizer, names.label_key(finalizer))
    errors += when(
        "orphan" in finalizers and "foregroundDeletion" in finalizers,
        invalid,
        path,
        finalizers,
        "finalizer orphan and foregroundDeletion cannot be both set",
    )
    return errors


def finalizer_errors(meta: Tree) -> list[FieldError]:
    """Finalizers of built-in kinds are standard ones, or qualified."""
    return [
        invalid(
            f"metadata.finalizers[{index}]",
            name,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
        for index, name in enumerate(meta.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def finalizer_warnings(meta: Tree, old: Tree | None) -> list[str]:
    """Return the warnings about new finalizers of a custom resource, which may have any name."""
    path = "metadata.finalizers"
    known = set((old or {}).get("finalizers") or ())
    found: list[str] = []
    for name in sorted(set(meta.get("finalizers") or ()) - known):
        shown = f"{path}: {quote(name)}"
        found += [f"{shown}: {problem}" for problem in names.qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            part = " including a path (/)" if "." in name else ""
            found.append(
                f"{shown}: prefer a domain-qualified finalizer name{part} to avoid accidental "
                "conflicts with other finalizer writers"
            )
    return found


def validate_finalizer_name(name: str, path: str) -> list[FieldError]:
    """Return the errors of a finalizer's name by the older rule of core kinds: standard, or qualified."""
    errors = [invalid(path, name, problem) for problem in names.qualified_name(name)]
    text = "name is neither a standard finalizer name nor is it fully qualified"
    errors += when("/" not in name and name not in _STANDARD_FINALIZERS, invalid, path, name, text)
    return errors


def validate_meta(
    meta: Tree,
    rule: NameRule,
    *,
    namespaced: bool,
    path: str = "metadata",
    prefix: bool = True,
) -> list[FieldError]:
    """Return the errors of a new object's metadata; `prefix`: the rule holds for generateName, too."""
    errors: list[FieldError] = []
    generate_name = meta.get("generateName")
    if generate_name and prefix:
        errors += problems(f"{path}.generateName", generate_name, rule(names.masked(generate_name)))
    name = meta.get("name", "")
    errors += name_at(name, f"{path}.name", rule, detail="name or generateName is required")
    namespace = meta.get("namespace", "")
    if namespaced:
        errors += name_at(namespace, f"{path}.namespace", names.dns_label)
    elif namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    return errors + _validate_accessors(meta, path)


def _validate_accessors(meta: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if meta.get("generation", 0) < 0:
        text = "must be greater than or equal to 0"
        errors.append(invalid(f"{path}.generation", meta["generation"], text))
    if "labels" in meta:
        errors += validate_labels(meta["labels"], f"{path}.labels")
    if "annotations" in meta:
        errors += validate_annotations(meta["annotations"], f"{path}.annotations")
    if "ownerReferences" in meta:
        errors += _validate_owners(meta["ownerReferences"], f"{path}.ownerReferences")
    if "finalizers" in meta:
        errors += _validate_finalizers(meta["finalizers"], f"{path}.finalizers")
    return errors


_IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


_TEXTS = frozenset(("name", "namespace", "uid"))
"""Those of them that are plain texts: a missing one is empty."""


def validate_meta_update(
    new: Tree,
    old: Tree,
    rule: NameRule,
    steps: str,
    *,
    namespaced: bool,
    standard_finalizers: bool = True,
) -> tuple[list[FieldError], list[FieldError]]:
    """The rules for changed metadata, in the order and as often as upstream's strategies ask them.

    Every update is checked as an object and as a change; then by its kind: `steps` has an "A" for the
    rules of a new object, a "U" for those of a change, and a "*" where the kind's own rules stand if
    they are not last. Returns the errors before and after these. Upstream: rest.BeforeUpdate and the
    ValidateUpdate of each kind.
    """
    if new is old:
        return [], []
    changed = _looked_at(new, old)
    errors = validate_meta(new, names.path_segment, namespaced=namespaced) if changed else []
    errors = errors + change_errors(new, old, changed=changed)
    before: list[FieldError] | None = None
    for step in steps:
        if step == "*":
            before, errors = errors, []
            continue
        errors = errors + meta_step(
            new, old, rule, step, namespaced=namespaced, standard_finalizers=standard_finalizers
        )
    return (errors, []) if before is None else (before, errors)


def meta_step(
    new: Tree,
    old: Tree,
    rule: NameRule,
    step: str,
    *,
    namespaced: bool,
    standard_finalizers: bool = True,
) -> list[FieldError]:
    """Return the errors that one check of changed metadata finds, as of a new object ("A") or of a change ("U")."""
    changed = _looked_at(new, old)
    kube = finalizer_errors(new) if changed and standard_finalizers else []
    if step == "U":
        return change_errors(new, old, changed=changed) + kube
    return validate_meta(new, rule, namespaced=namespaced) + kube if changed else []


def _looked_at(new: Tree, old: Tree) -> bool:
    return any(new.get(key) is not old.get(key) for key in _CHECKED)


_CHECKED = ("labels", "annotations", "ownerReferences", "finalizers", "generateName")


def change_errors(new: Tree, old: Tree, *, changed: bool = True) -> list[FieldError]:
    """Return the errors of a change of metadata."""
    path = "metadata"
    errors: list[FieldError] = []
    if old.get("deletionTimestamp") and "finalizers" in new:
        kept = frozenset(old.get("finalizers", ()))
        added = dict.fromkeys(name for name in new["finalizers"] if name not in kept)
        if added:
            listed = ", ".join(quote(name) for name in sorted(added))
            errors.append(
                forbidden(
                    f"{path}.finalizers",
                    (
                        "no new finalizers can be added if the object is being deleted, found new "
                        f"finalizers []string{{{listed}}}"
                    ),
                )
            )
    text = "must be specified for an update"
    errors += when(not new.get("resourceVersion"), invalid, f"{path}.resourceVersion", "", text)
    errors += when(
        new.get("generation", 0) < old.get("generation", 0),
        invalid,
        f"{path}.generation",
        new.get("generation", 0),
        "must not be decremented",
    )
    for key in _IMMUTABLE:
        none = "" if key in _TEXTS else None
        errors += immutable(new.get(key, none), old.get(key, none), f"{path}.{key}")
    if changed:
        errors += validate_labels(new.get("labels") or {}, f"{path}.labels")
        errors += validate_annotations(new.get("annotations") or {}, f"{path}.annotations")
        errors += _validate_owners(new.get("ownerReferences") or [], f"{path}.ownerReferences")
    return errors
