"""Expressions that select devices: the environment, costs, and what a device looks like to them.

`device` has the fields `driver`, `attributes` and `capacity` (maps from a domain to a map from a name to a value) and
`allowMultipleAllocations`. A name without a domain belongs to the domain of the driver. A domain without any names is
an empty map; a name that a device does not have is an error.
Upstream: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel import CelError, PlanError, Program, compiled
from controlplane.apiserver.kinds.custom.cel.conversions import type_name
from controlplane.apiserver.kinds.custom.cel.declared import Declared
from controlplane.apiserver.kinds.custom.cel.estimates import estimate
from controlplane.apiserver.kinds.custom.cel.maps import Complete
from controlplane.apiserver.kinds.custom.cel.metering import METER, Meter
from controlplane.apiserver.kinds.custom.cel.network import Address, Network, Url
from controlplane.apiserver.kinds.custom.cel.semver import Semver, read_semver
from controlplane.apiserver.kinds.custom.cel.signatures import DEVICES
from controlplane.apiserver.kinds.custom.cel.types import (
    ANY,
    BOOL,
    DYN,
    STRING,
    Type,
    map_of,
    read_type,
)
from controlplane.apiserver.kinds.custom.rules import location

__all__ = ["CompileError", "DeviceSelector", "device_selector"]

COST_LIMIT: Final = 1_000_000
"""Steps that one evaluation may take."""
MAX_DOMAIN: Final = 63
MAX_NAME: Final = 32
MAX_DRIVER: Final = 63
MAX_VALUE: Final = 64
MAX_NAMES: Final = 32
"""Attributes and capacities of a device."""
INVALID: Final = "RuleInvalid"
INTERNAL: Final = "InternalError"


class CompileError(Exception):
    """An expression that cannot be used. `kind` is upstream's type of the error."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@frozen(eq=False)
class _EveryName(Mapping[str, Declared]):
    """The attributes of a domain: any name, of the same size."""

    attribute: Declared

    def __getitem__(self, _name: str) -> Declared:
        return self.attribute

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@lru_cache(maxsize=2)
def _environment(lists: bool) -> tuple[Declared, dict[str, Type]]:
    """Return the sizes of `device`, and the types of the variables; with `lists` attributes may be lists."""
    domain, name = Declared(STRING, MAX_DOMAIN), Declared(STRING, MAX_NAME)
    attribute = Declared(DYN if lists else ANY, MAX_VALUE)
    of_domain = Declared(
        map_of(STRING, attribute.type), MAX_NAMES, 2, attribute, name, _EveryName(attribute)
    )
    quantity = Declared(read_type("kubernetes.Quantity"))
    amounts = Declared(map_of(STRING, quantity.type), MAX_NAMES, 2, quantity, name)
    fields = {
        "driver": Declared(STRING, MAX_DRIVER),
        "attributes": Declared(map_of(STRING, of_domain.type), MAX_NAMES, 2, of_domain, domain),
        "capacity": Declared(map_of(STRING, amounts.type), MAX_NAMES, 2, amounts, domain),
        # Upstream gates this field only for new expressions, and compiles all as stored ones.
        "allowMultipleAllocations": Declared(BOOL, 1),
    }
    device = Type("kubernetes.DRADevice", fields={key: each.type for key, each in fields.items()})
    return Declared(device, fields=fields), {"device": device, DEVICES: DYN}


_RUNTIME_NAMES: Final = {
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "null_type",
}


def _runtime_name(kind: Type) -> str:
    name = _RUNTIME_NAMES.get(kind.name, kind.name)
    return f"{name}({', '.join(map(_runtime_name, kind.params))})" if kind.params else name


@frozen(eq=False)
class DeviceSelector:
    """A compiled expression.

    Attributes:
        program: the expression.
        lists: attributes may be lists (feature DRAListTypeAttributes).
        max_cost: the most steps that an evaluation may take, as estimated.
    """

    program: Program
    lists: bool
    max_cost: int

    def matches(self, driver: str, device: Tree, meter: Meter | None = None) -> bool:
        """Return whether a device is selected.

        Args:
            driver: the name of its driver.
            device: a device of a ResourceSlice.
            meter: counts the steps; None for a new one with the limit of selectors.

        Raises:
            CelError: the evaluation failed, or did not give a boolean.
        """
        variables = _variables(driver, device, lists=self.lists)
        scope = {"device": variables, METER: meter or Meter(COST_LIMIT)}
        value = self.program.run(scope)
        if isinstance(value, bool):
            return value
        kind, text = type_name(value), _unconvertible(value)
        kind = _TYPES_IN_CEL.get(type(value), kind)
        raise CelError(f"CEL result of type {kind} could not be converted to bool: {text}")


_TYPES_IN_CEL: Final = {
    Semver: "kubernetes.Semver",
    Quantity: "kubernetes.Quantity",
    Address: "net.IP",
    Network: "net.CIDR",
    Url: "kubernetes.URL",
}
_CONVERSIONS: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from 'double' to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "Address": "type conversion error from 'IP' to 'bool'",
    "Network": "type conversion error from 'CIDR' to 'bool'",
    "Url": "type conversion error from 'URL' to 'bool'",
}


def _unconvertible(value: Any) -> str:
    name = type_name(value)
    return _CONVERSIONS.get(name) or f"type conversion error from '{name}' to 'bool'"


@lru_cache(maxsize=1024)
def device_selector(source: str, lists: bool = False) -> DeviceSelector:
    """Return a compiled expression.

    Args:
        source: the expression.
        lists: attributes may be lists (feature DRAListTypeAttributes).

    Raises:
        CompileError: the expression is wrong, or gives another type than bool.
    """
    device, types = _environment(lists)
    try:
        program = compiled(source, types)
    except PlanError as error:
        assert error.gives is not None
        _check_result(error.gives, lists=lists)
        raise CompileError(f"program instantiation failed: {error}", INTERNAL) from None
    except CelError as error:
        text = f"compilation failed: {location(source, error)}"
        raise CompileError(text, INVALID) from None
    _check_result(program.gives, lists=lists)
    cost = estimate(program.checked, device, "device").high
    return DeviceSelector(program, lists, cost)


def _check_result(kind: Type, *, lists: bool) -> None:
    """Raise CompileError for a type other than bool or that of an attribute."""
    if kind is not BOOL and kind is not ANY and not (lists and kind is DYN):
        text = f"must evaluate to bool or the unknown type, not {_runtime_name(kind)}"
        raise CompileError(text, INVALID)


# -- a device as an expression sees it -----------------------------------------------------------


def _variables(driver: str, device: Tree, *, lists: bool) -> Tree:
    """Return the fields of `device`. CelError for an attribute without a value of a known type."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in sorted((device.get("attributes") or {}).items()):
        try:
            value = _attribute(attribute, lists=lists)
        except CelError as error:
            raise CelError(f"attribute {name}: {error}") from None
        domain, key = _qualified(name, driver)
        attributes.setdefault(domain, {})[key] = value
    capacity: dict[str, dict[str, Quantity]] = {}
    for name, amount in sorted((device.get("capacity") or {}).items()):
        domain, key = _qualified(name, driver)
        capacity.setdefault(domain, {})[key] = parse(str(amount.get("value", "0")))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
        "attributes": Complete(attributes, {}),
        "capacity": Complete(capacity, {}),
    }


def _attribute(attribute: Tree, *, lists: bool) -> Any:
    if lists:
        for key in ("ints", "bools", "strings"):
            if attribute.get(key) is not None:
                return list(attribute[key])
        if attribute.get("versions") is not None:
            return [_version(text) for text in attribute["versions"]]
    for key in ("int", "bool", "string"):
        if attribute.get(key) is not None:
            return attribute[key]
    if attribute.get("version") is not None:
        return _version(attribute["version"])
    raise CelError("unsupported attribute value")


def _version(text: str) -> Semver:
    try:
        return read_semver(text)
    except CelError as error:
        raise CelError(f"parse semantic version: {error}") from None


def _qualified(name: str, driver: str) -> tuple[str, str]:
    """Return the domain and the rest of a name."""
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)
