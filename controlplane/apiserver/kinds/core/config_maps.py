"""ConfigMaps. Upstream: pkg/registry/core/configmap, pkg/apis/core/validation."""

from __future__ import annotations

import base64

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, too_long
from controlplane.apiserver.schema.work import spend

__all__ = ["DATA_LIMIT", "KIND", "validate_emptied", "validate_immutable"]

DATA_LIMIT = 1024 * 1024


def validate_config_map(tree: Tree) -> list[FieldError]:
    """Return the errors of a config map."""
    errors: list[FieldError] = []
    data, binary = tree.get("data") or {}, tree.get("binaryData") or {}
    total = 0
    spend(2 * (len(data) + len(binary)))
    for key in sorted(data):
        errors += problems(f"data[{key}]", key, names.config_key(key))
        errors += when(
            key in binary, invalid, f"data[{key}]", key, "duplicate of key present in binaryData"
        )
        total += len(data[key].encode())
    for key in sorted(binary):
        errors += problems(f"binaryData[{key}]", key, names.config_key(key))
        total += len(base64.b64decode(binary[key] or ""))
    return errors + when(total > DATA_LIMIT, too_long, "", DATA_LIMIT)


_FIXED = "field is immutable when `immutable` is set"


def validate_immutable(new: Tree, old: Tree, keys: tuple[str, ...]) -> list[FieldError]:
    """Return the errors of changes to an object that says it is immutable."""
    errors: list[FieldError] = []
    if not old.get("immutable"):
        return errors
    errors += when(not new.get("immutable"), forbidden, "immutable", _FIXED)
    for key in keys:
        errors += when((new.get(key) or {}) != (old.get(key) or {}), forbidden, key, _FIXED)
    return errors


def validate_emptied(ctx: Context, old: Tree, keys: tuple[str, ...]) -> list[FieldError]:
    """Return the errors of maps that are written without entries into an immutable object that has no such map.

    Upstream compares a map without entries with none, and they differ until the object is stored.
    """
    if not old.get("immutable"):
        return []
    emptied = [key for key in keys if ctx.written(key) == {} and not old.get(key)]
    return [forbidden(key, _FIXED) for key in emptied]


def validate_config_map_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed config map."""
    return validate_immutable(new, old, ("data", "binaryData")) + validate_config_map(new)


class ConfigMapStrategy(Strategy):
    """The rules of config maps."""

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        errors = validate_emptied(ctx, old, ("data", "binaryData"))
        return errors + super().validate_update(ctx, new, old)


KIND = Kind(
    strategy=ConfigMapStrategy(
        rule=validate_config_map,
        update_rule=validate_config_map_update,
        has_status=False,
        meta_steps="UA",
    ),
    row=lambda tree, now: [
        name_of(tree),
        len(tree.get("data") or ()) + len(tree.get("binaryData") or ()),
        age_of(tree, now),
    ],
)
