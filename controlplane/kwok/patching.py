"""Patches of stages applied to the object that a stage was matched with, to leave out those that change nothing.

Upstream: `checkNeedPatch` in pkg/kwok/controllers/utils.go.
"""

from __future__ import annotations

import copy
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.patching.json_patch import JsonPatchError, json_patch
from controlplane.apiserver.requests.patching.merge import merge_patch
from controlplane.apiserver.requests.patching.strategic import PatchError as StrategicError
from controlplane.apiserver.requests.patching.strategic import strategic_patch
from controlplane.apiserver.schema.types import struct_type
from controlplane.kwok import lifecycle

__all__ = ["PatchError", "applied", "changes"]

TYPES = {"Pod": "io.k8s.api.core.v1.Pod", "Node": "io.k8s.api.core.v1.Node"}


class PatchError(ValueError):
    """A patch that does not apply; the text is upstream's."""


def applied(tree: Tree, patch: lifecycle.Patch) -> Tree:
    """Return an object with a patch. Raises PatchError."""
    data: Any = copy.deepcopy(patch.data)
    if patch.type == lifecycle.JSON_PATCH:
        if not isinstance(data, list):
            raise PatchError("the template does not render to an array of operations")
        try:
            return json_patch(tree, data)  # type: ignore[no-any-return]
        except JsonPatchError as error:
            path = str(error).removeprefix("no path ")
            where = f'doc is missing path: "{path}": missing value'
            raise PatchError(f"add operation does not apply: {where}") from None
    if patch.type == lifecycle.MERGE_PATCH:
        return merge_patch(tree, data)  # type: ignore[no-any-return]
    if not isinstance(data, dict):
        raise PatchError("the template does not render to an object")
    type_name = TYPES.get(str(tree.get("kind")))
    if type_name is not None and tree.get("apiVersion") == "v1":
        try:
            return strategic_patch(copy.deepcopy(tree), data, struct_type(type_name))
        except StrategicError as error:
            raise PatchError(str(error)) from None
    made = dict(tree)
    for key in sorted(data):
        old, new = tree.get(key), data[key]
        if isinstance(old, (dict, list)) and type(old) is type(new):
            what = "unable to find api field in struct Unstructured for the json field"
            raise PatchError(f'{what} "{key}"')
        made[key] = new
    return made


def changes(tree: Tree, patch: lifecycle.Patch) -> bool:
    """Return whether a patch changes an object. Raises PatchError."""
    return bool(applied(tree, patch) != tree)
