"""ConfigMaps. Upstream: pkg/registry/core/configmap, pkg/apis/core/validation."""

from __future__ import annotations

import base64
from functools import partial

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import meta_step
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, too_long
from controlplane.apiserver.schema.work import spend

__all__ = ["DATA_LIMIT", "KIND", "as_written", "validate_immutable"]

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
        mine, theirs = new.get(key), old.get(key)
        changed = (mine or {}) != (theirs or {}) or (mine == {} and theirs is None)
        errors += when(changed, forbidden, key, _FIXED)
    return errors


def as_written(ctx: Context, tree: Tree, keys: tuple[str, ...]) -> Tree:
    """The object with maps that were written without entries, which upstream tells from none until they are stored."""
    emptied: Tree = {key: {} for key in keys if key not in tree and ctx.written(key) == {}}
    return {**tree, **emptied} if emptied else tree


def validate_config_map_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed config map."""
    step = partial(
        meta_step, new["metadata"], old["metadata"], names.dns_subdomain, namespaced=True
    )
    errors = step("U") + validate_immutable(new, old, ("data", "binaryData"))
    return errors + step("A") + validate_config_map(new)


class ConfigMapStrategy(Strategy):
    """The rules of config maps."""

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        return super().validate_update(ctx, as_written(ctx, new, ("data", "binaryData")), old)


KIND = Kind(
    strategy=ConfigMapStrategy(
        rule=validate_config_map,
        update_rule=validate_config_map_update,
        has_status=False,
        meta_steps="",
    ),
    row=lambda tree, now: [
        name_of(tree),
        len(tree.get("data") or ()) + len(tree.get("binaryData") or ()),
        age_of(tree, now),
    ],
)
