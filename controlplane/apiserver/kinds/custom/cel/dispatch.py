"""Calls whose form is chosen by the values of their arguments, where types are not known before.

Upstream: cel-go common/decls and common/types (IsAssignableRuntimeType).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from controlplane.api.quantity import Quantity
from controlplane.apiserver.kinds.custom.cel.conversions import type_name
from controlplane.apiserver.kinds.custom.cel.library import NamedFormat
from controlplane.apiserver.kinds.custom.cel.maps import Typed, items_of
from controlplane.apiserver.kinds.custom.cel.network import Address, Network, Url
from controlplane.apiserver.kinds.custom.cel.operators import OVERLOAD, failed
from controlplane.apiserver.kinds.custom.cel.semver import Semver
from controlplane.apiserver.kinds.custom.cel.signatures import Overload
from controlplane.apiserver.kinds.custom.cel.types import DYN, Type

__all__ = ["guarded", "shown_type"]

_LIBRARY_TYPES: Final = {
    Address: "net.IP",
    Network: "net.CIDR",
    Url: "kubernetes.URL",
    Semver: "kubernetes.Semver",
    Quantity: "kubernetes.Quantity",
    NamedFormat: "kubernetes.NamedFormat",
}
_VALUE_TYPES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}
_UNGUARDED: Final = frozenset(("startsWith", "endsWith", "contains", "matches", "find", "findAll"))
"""Functions that look at their arguments themselves."""
_BY_TRAIT: Final = frozenset(("size", "sort"))
"""Functions that do not tell the types that they are not for."""


def shown_type(value: Any) -> str:
    """The name of the type of a value."""
    if isinstance(value, Typed):
        return value.type_name
    return _LIBRARY_TYPES.get(type(value)) or type_name(value)


def guarded(
    name: str, function: Callable[..., Any], overloads: Sequence[Overload]
) -> Callable[..., Any]:
    """The function, which fails on values that none of its forms is for."""
    if name in _UNGUARDED:
        return function

    def run(*args: Any) -> Any:
        if not any(all(map(_fits, one.takes, args)) for one in overloads):
            if name in _BY_TRAIT:
                raise failed(f"{OVERLOAD}: {name}")
            raise failed(f"{OVERLOAD}: {name}({', '.join(map(shown_type, args))})")
        return function(*args)

    return run


def _fits(wanted: Type, value: Any) -> bool:
    """True where a value is of a type; of a list or map the first element tells."""
    if wanted.variable or wanted is DYN or wanted.name.startswith("kubernetes.authorization."):
        return True
    if shown_type(value) != _VALUE_TYPES.get(wanted.name, wanted.name):
        return False
    if isinstance(value, list):
        return not value or _fits(wanted.params[0], value[0])
    if isinstance(value, dict) and wanted.params:
        return all(
            _fits(wanted.params[0], k) and _fits(wanted.params[1], v)
            for k, v in list(items_of(value))[:1]
        )
    return True
