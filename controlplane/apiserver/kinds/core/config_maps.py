"""ConfigMaps. Upstream: pkg/registry/core/configmap, pkg/apis/core/validation."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.metadata import meta_step
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, too_long
from controlplane.apiserver.schema.work import spend

__all__ = ["DATA_LIMIT", "KIND", "DataStrategy", "validate_data_update"]

DATA_LIMIT = 1024 * 1024
Rule = Callable[[Tree], list[FieldError]]


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


def validate_data_update(
    new: Tree, old: Tree, keys: tuple[str, ...], rule: Rule, own: Sequence[FieldError] = ()
) -> list[FieldError]:
    """Return the errors of a changed object with data, in upstream's order.

    Args:
        new: the object to be stored.
        old: the object as it is stored.
        keys: the fields with data, which stay while the object is immutable.
        rule: the errors of a new object of this kind.
        own: errors of other fields that stay.
    """
    step = partial(
        meta_step, new["metadata"], old["metadata"], names.dns_subdomain, namespaced=True
    )
    errors = [*step("U"), *own, *validate_immutable(new, old, keys)]
    return errors + step("A") + rule(new)


class DataStrategy(Strategy):
    """Rules of a kind with data. Until a map is stored, upstream tells one without entries from none."""

    data_keys: ClassVar[tuple[str, ...]] = ("data",)

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update of this kind."""
        written = (key for key in self.data_keys if key not in new and ctx.written(key) == {})
        emptied: Tree = {key: {} for key in written}
        return super().validate_update(ctx, {**new, **emptied} if emptied else new, old)


class ConfigMapStrategy(DataStrategy):
    """The rules of config maps."""

    data_keys = ("data", "binaryData")


def validate_config_map_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed config map."""
    return validate_data_update(new, old, ConfigMapStrategy.data_keys, validate_config_map)


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
