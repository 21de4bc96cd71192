"""Secrets. Upstream: pkg/registry/core/secret, pkg/apis/core/validation."""

from __future__ import annotations

import base64

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import immutable, problems, when
from controlplane.apiserver.kinds.core.config_maps import (
    DATA_LIMIT,
    DataStrategy,
    validate_data_update,
)
from controlplane.apiserver.kinds.kind import META, Kind
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.kinds.trees import filled
from controlplane.apiserver.schema import go_json
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required, too_long

__all__ = ["KIND"]


def default_secret(tree: Tree) -> Tree:
    """The type, and stringData written into data."""
    tree = filled(tree, {"type": "Opaque"})
    if "stringData" in tree:
        data = dict(tree.get("data", {}))
        for key, text in tree["stringData"].items():
            data[key] = base64.b64encode(text.encode()).decode()
        tree = {key: value for key, value in tree.items() if key != "stringData"}
        tree["data"] = data
    return tree


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def validate_secret(tree: Tree) -> list[FieldError]:
    """Return the errors of a secret."""
    errors: list[FieldError] = []
    data = tree.get("data") or {}
    total = 0
    for key in sorted(data):
        errors += problems(f"data[{key}]", key, names.config_key(key))
        total += len(base64.b64decode(data[key] or ""))
    errors += when(total > DATA_LIMIT, too_long, "data", DATA_LIMIT)
    kind = tree.get("type", "")
    if kind == "kubernetes.io/service-account-token":
        key = "kubernetes.io/service-account.name"
        detail = f"metadata.annotations[{key}]"
        errors += when(not (tree["metadata"].get("annotations") or {}).get(key), required, detail)
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
            errors += when(problem, invalid, f"data[{key}]", "<secret contents redacted>", problem)
    return errors


def validate_secret_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed secret; its type stays."""
    own = immutable(new.get("type"), old.get("type"), "type")
    return validate_data_update(new, old, SecretStrategy.data_keys, validate_secret, own)


class SecretStrategy(DataStrategy):
    """Secrets; a certificate that cannot be one is remarked on."""

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        if tree.get("type") != "kubernetes.io/tls":
            return []
        data = tree.get("data") or {}
        for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
            if b"-----BEGIN " not in base64.b64decode(data.get(key) or ""):
                return [f"tls: failed to find any PEM data in {what} input"]
        return []


KIND = Kind(
    strategy=SecretStrategy(
        default=default_secret,
        rule=validate_secret,
        update_rule=validate_secret_update,
        has_status=False,
        meta_steps="",
    ),
    row=lambda tree, now: [
        name_of(tree),
        tree.get("type", ""),
        len(tree.get("data") or ()),
        age_of(tree, now),
    ],
    selectable={**META, "type": ""},
)
