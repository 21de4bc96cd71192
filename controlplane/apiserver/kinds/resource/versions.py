"""Claims and slices in version v1beta1, which has flat requests and wraps what a device has in `basic`.

v1beta2 has the fields of v1. Upstream: pkg/apis/resource/v1beta1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import without
from controlplane.apiserver.kinds.trees import each, inside

__all__ = ["from_beta1", "to_beta1"]

_EXACT: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
"""The fields of a request that v1 has in `exactly`."""
_SET_BY_VALUE: Final = ("deviceClassName", "allocationMode", "count")
"""Those of them that are set only when they are not empty."""


def _exact_request(request: Tree) -> Tree:
    exact = {
        key: request[key]
        for key in _EXACT
        if request.get(key) is not None and (request[key] or key not in _SET_BY_VALUE)
    }
    kept = {key: value for key, value in request.items() if key not in _EXACT}
    return {**kept, "exactly": exact} if exact else kept


def _flat_request(request: Tree) -> Tree:
    flat = {**without(request, "exactly"), **(request.get("exactly") or {})}
    return {**flat, "deviceClassName": flat.get("deviceClassName", "")}


def _flat_device(device: Tree) -> Tree:
    return {**without(device, "basic"), **(device.get("basic") or {})}


def _basic_device(device: Tree) -> Tree:
    basic = without(device, "name")
    return {"name": device.get("name", ""), "basic": basic}


def _requests(spec: Tree, change: Callable[[Tree], Tree]) -> Tree:
    return inside(spec, "devices", lambda devices: each(devices, "requests", change))


def _plain_slice(spec: Tree) -> Tree:
    """Return the spec of a slice without the empty values that v1beta1 cannot tell from missing ones."""
    for key in ("nodeName", "allNodes"):
        if not spec.get(key):
            spec = without(spec, key)
    return each(spec, "devices", _flat_device)


def _beta_slice(spec: Tree) -> Tree:
    return each(spec, "devices", _basic_device)


def from_beta1(kind: str, tree: Tree) -> Tree:
    """Return the fields of an object of v1beta1 as v1 has them."""
    if kind == "ResourceSlice":
        return inside(tree, "spec", _plain_slice)
    return _with_requests(kind, tree, _exact_request)


def to_beta1(kind: str, tree: Tree) -> Tree:
    """Return the fields of an object of v1 as v1beta1 has them."""
    if kind == "ResourceSlice":
        return inside(tree, "spec", _beta_slice)
    return _with_requests(kind, tree, _flat_request)


def _with_requests(kind: str, tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    if kind == "ResourceClaim":
        return inside(tree, "spec", lambda spec: _requests(spec, change))
    if kind == "ResourceClaimTemplate":
        return inside(
            tree, "spec", lambda outer: inside(outer, "spec", lambda spec: _requests(spec, change))
        )
    return tree
