"""Validation of the smaller core kinds. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

import base64

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import validate_finalizer_name
from controlplane.apiserver.kinds.validation.pods import validate_template
from controlplane.apiserver.kinds.validation.shared import immutable, non_negative
from controlplane.apiserver.schema import go_json
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
)
from controlplane.apiserver.schema.work import spend

__all__ = [
    "validate_config_map",
    "validate_config_map_update",
    "validate_controller_revision",
    "validate_controller_revision_update",
    "validate_namespace",
    "validate_namespace_status",
    "validate_pod_template",
    "validate_secret",
    "validate_secret_update",
]

_DATA_LIMIT = 1024 * 1024


# -- config maps and secrets ---------------------------------------------------------------------


def validate_config_map(tree: Tree) -> list[FieldError]:
    """A config map."""
    errors: list[FieldError] = []
    data, binary = tree.get("data") or {}, tree.get("binaryData") or {}
    total = 0
    spend(2 * (len(data) + len(binary)))
    for key in sorted(data):
        for problem in names.config_key(key):
            errors.append(invalid(f"data[{key}]", key, problem))
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        total += len(data[key].encode())
    for key in sorted(binary):
        for problem in names.config_key(key):
            errors.append(invalid(f"binaryData[{key}]", key, problem))
        total += len(base64.b64decode(binary[key] or ""))
    if total > _DATA_LIMIT:
        errors.append(too_long("", _DATA_LIMIT))
    return errors


_FIXED = "field is immutable when `immutable` is set"


def _immutable_object(new: Tree, old: Tree, keys: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    if not old.get("immutable"):
        return errors
    if not new.get("immutable"):
        errors.append(forbidden("immutable", _FIXED))
    for key in keys:
        if (new.get(key) or {}) != (old.get(key) or {}):
            errors.append(forbidden(key, _FIXED))
    return errors


def validate_config_map_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed config map."""
    return _immutable_object(new, old, ("data", "binaryData")) + validate_config_map(new)


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}

_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def validate_secret(tree: Tree) -> list[FieldError]:
    """A secret."""
    errors: list[FieldError] = []
    data = tree.get("data") or {}
    total = 0
    for key in sorted(data):
        errors += [invalid(f"data[{key}]", key, problem) for problem in names.config_key(key)]
        total += len(base64.b64decode(data[key] or ""))
    if total > _DATA_LIMIT:
        errors.append(too_long("data", _DATA_LIMIT))
    kind = tree.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        key = "kubernetes.io/service-account.name"
        if not (tree["metadata"].get("annotations") or {}).get(key):
            errors.append(required(f"metadata.annotations[{key}]"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors += [required("data[username]"), required("data[password]")]
    elif kind in _SECRET_KEYS:
        errors += [required(f"data[{key}]") for key in _SECRET_KEYS[kind] if key not in data]
    elif kind in _DOCKER_KEYS:
        key = _DOCKER_KEYS[kind]
        if key not in data:
            errors.append(required(f"data[{key}]"))
        else:
            text = base64.b64decode(data[key] or "").decode("utf-8", "replace")
            problem = go_json.syntax_error(text)
            if problem:
                errors.append(invalid(f"data[{key}]", "<secret contents redacted>", problem))
    return errors


def validate_secret_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed secret; its type stays."""
    errors = immutable(new.get("type"), old.get("type"), "type")
    return errors + _immutable_object(new, old, ("data",)) + validate_secret(new)


# -- namespaces and nodes ------------------------------------------------------------------------


def validate_namespace(tree: Tree) -> list[FieldError]:
    """A namespace."""
    errors: list[FieldError] = []
    for finalizer in (tree.get("spec") or {}).get("finalizers") or ():
        errors += validate_finalizer_name(finalizer, "spec.finalizers")
    return errors


def validate_namespace_status(new: Tree, _old: Tree) -> list[FieldError]:
    """A namespace's phase follows its deletion."""
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            return [invalid("status.Phase", phase,
                            "may only be 'Terminating' if `deletionTimestamp` is not empty"
                            )]  # fmt: skip
    elif phase != "Active":
        return [invalid("status.Phase", phase,
                        "may only be 'Active' if `deletionTimestamp` is empty")]  # fmt: skip
    return []


# -- templates and revisions ---------------------------------------------------------------------


def validate_pod_template(tree: Tree) -> list[FieldError]:
    """A pod template."""
    return validate_template(tree.get("template") or {}, "template")


def validate_controller_revision(tree: Tree) -> list[FieldError]:
    """A controller revision."""
    errors: list[FieldError] = []
    if tree.get("data") is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(tree["data"], dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors + non_negative(tree.get("revision", 0), "revision")


def validate_controller_revision_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed controller revision; its data stays."""
    errors = non_negative(new.get("revision", 0), "revision")
    return errors + immutable(new.get("data"), old.get("data"), "data")
