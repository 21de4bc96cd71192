"""
From JSON trees to typed views: cattrs generates one function per class.

Null counts as absent everywhere. Strings, maps and opaque sub-trees are taken as they are, so a
view shares them with its tree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, override

from controlplane.api.meta import ObjectMeta
from controlplane.api.quantity import Quantity, parse
from controlplane.api.times import Time, parse_time
from controlplane.api.tree import Tree
from controlplane.sharing import alike
from controlplane.sharing.memory import KEPT, Memory, by_identity


class WithTree(Protocol):
    """The fields of a view of a whole object besides its Kubernetes fields."""

    @property
    def tree(self) -> Tree:
        """The tree that it was decoded from."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


V = TypeVar("V", bound=WithTree)
T = TypeVar("T")
Hook = Callable[[Any, Any], Any]

IRREGULAR: Final = {
    "boot_id": "bootID",
    "cluster_ip": "clusterIP",
    "cluster_ips": "clusterIPs",
    "container_id": "containerID",
    "disk_uri": "diskURI",
    "downward_api": "downwardAPI",
    "external_ips": "externalIPs",
    "host_ip": "hostIP",
    "host_ipc": "hostIPC",
    "host_ips": "hostIPs",
    "host_pid": "hostPID",
    "image_id": "imageID",
    "load_balancer_ip": "loadBalancerIP",
    "machine_id": "machineID",
    "node_id": "nodeID",
    "pod_cidr": "podCIDR",
    "pod_cidrs": "podCIDRs",
    "pod_ip": "podIP",
    "pod_ips": "podIPs",
    "provider_id": "providerID",
    "set_hostname_as_fqdn": "setHostnameAsFQDN",
    "system_uuid": "systemUUID",
    "volume_id": "volumeID",
}
"""Python name to JSON name where plain camel case does not give it."""

_CONVERTER: Final = Converter(detailed_validation=False)


def json_name(field: str) -> str:
    """The JSON name of a field of a view."""
    irregular = IRREGULAR.get(field)
    if irregular is not None:
        return irregular
    head, *tail = field.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _as_is(value: Any, _: Any) -> Any:
    return value


def _quantity(value: Any, _: Any) -> Quantity:
    return parse(value if isinstance(value, str) else str(value))


@by_identity
def _amounts(value: Tree) -> dict[str, Quantity]:
    """Decoded once for all pods that share the tree, as what is allocated to pods of one template."""
    return {k: parse(v if isinstance(v, str) else str(v)) for k, v in value.items()}


def _quantities(value: Any, _: Any) -> dict[str, Quantity]:
    return _amounts(value)


def _time(value: Any, _: Any) -> int:
    return parse_time(value)


def _times(value: Any, _: Any) -> dict[str, int]:
    return {k: parse_time(v) for k, v in value.items()}


def _tuple_of(item: Hook, kind: Any) -> Hook:
    if item is _as_is:
        return lambda value, _: tuple(value)
    if not (attrs.has(kind) and alike.is_often_alike(kind.__name__)):
        return lambda value, _: tuple([item(element, kind) for element in value])
    memory: Memory[int, tuple[Any, tuple[Any, ...]]] = Memory("decoded lists", alike.KEPT)
    known = memory.known

    def decode(value: Any, _: Any) -> tuple[Any, ...]:
        """Lists that objects share are decoded once."""
        found = known.get(id(value))
        if found is not None:
            return found[1]
        decoded = tuple([item(element, kind) for element in value])
        if alike.is_shared(value):
            memory.keep(id(value), (value, decoded))
        return decoded

    return decode


def _hook(kind: Any) -> Hook:
    """The function that decodes a present value of a field of this type."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not NoneType]
        return _hook(members[0]) if len(members) == 1 else _as_is
    if origin is tuple:
        return _tuple_of(_hook(get_args(kind)[0]), get_args(kind)[0])
    if origin is dict:
        by_value: dict[Any, Hook] = {Quantity: _quantities, Time: _times}
        return by_value.get(get_args(kind)[1], _as_is)
    if kind is Quantity:
        return _quantity
    if kind is Time:
        return _time
    return nested_decoder(kind) if attrs.has(kind) else _as_is


@cache
def nested_decoder(cls: type) -> Hook:
    """The function that decodes a dict into a class that is not a top-level kind."""
    if hasattr(cls, "from_tree"):
        from_tree = cls.from_tree
        return lambda value, _: from_tree(value)
    hints = get_type_hints(cls)
    overrides: dict[str, Any] = {
        field.name: override(rename=json_name(field.name), struct_hook=_hook(hints[field.name]))
        for field in attrs.fields(cls)
    }
    generated: Hook = make_dict_structure_fn(
        cls, _CONVERTER, _cattrs_detailed_validation=False, **overrides
    )

    def decode(value: Tree, kind: Any) -> Any:
        if None in value.values():
            value = {k: v for k, v in value.items() if v is not None}
        return generated(value, kind)

    return _recalled(decode, cls, alike.KEPT) if alike.is_often_alike(cls.__name__) else decode


class _Rebuild(NamedTuple):
    """The recipe for an instance that differs from another in a few fields."""

    fields: dict[str, tuple[int, Hook, Any]]
    """By JSON name: position, how to decode it, its type."""
    values: Callable[[Any], tuple[Any, ...]]


@cache
def _rebuild(cls: type) -> _Rebuild | None:
    """None for a class whose instances are not made from all their fields in order."""
    found = attrs.fields(cls)
    if len(found) < 2 or any(field.kw_only or not field.init for field in found):
        return None
    hints = get_type_hints(cls)
    fields = {
        json_name(field.name): (at, _hook(hints[field.name]), hints[field.name])
        for at, field in enumerate(found)
    }
    return _Rebuild(fields, attrgetter(*(field.name for field in found)))


def _nested_class(kind: Any) -> type | None:
    """The view class behind a type, if `reused` may be asked about it."""
    if get_origin(kind) in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not NoneType]
        kind = members[0] if len(members) == 1 else None
    if isinstance(kind, type) and attrs.has(kind) and not hasattr(kind, "from_tree"):
        return kind
    return None


def reused(cls: type, value: Tree, before: Tree, like: Any) -> Any:
    """`value` decoded, given that `like` was decoded from `before`: only fields that differ are decoded.

    None when that would not save work: a field was taken away, or many differ.
    """
    changed: dict[str, Any] = {}
    known = 0
    for name, part in value.items():
        if name in before:
            known += 1
            if part is before[name]:
                continue
        if part is None:
            return None
        changed[name] = part
    if known != len(before) or 3 * len(changed) > len(value) + 3:
        return None
    rebuild = _rebuild(cls)
    if rebuild is None:
        return None
    values = list(rebuild.values(like))
    for name, part in changed.items():
        found = rebuild.fields.get(name)
        if found is not None:
            at, hook, kind = found
            values[at] = hook(part, kind)
    return cls(*values)


def _recalled(hook: Hook, kind: Any, kept: int = KEPT) -> Hook:
    """The hook, asked once for objects that share the tree, as pods of one template do."""
    decode = by_identity(lambda value: hook(value, kind), kept, name="decoded parts")
    return lambda value, _kind: decode(value)


def top_level_decoder(cls: type[V]) -> Callable[[Tree, V | None], V]:
    """The function that decodes an object with metadata and keeps its tree."""
    hints = get_type_hints(cls)
    meta = nested_decoder(ObjectMeta)
    no_meta = ObjectMeta()
    build: Callable[..., V] = cls
    parts = []
    described: Any = cls
    for field in attrs.fields(described):
        if field.name not in ("tree", "metadata"):
            kind = hints[field.name]
            default = field.default
            factory = getattr(default, "factory", None)
            if factory is not None:
                default = factory()
            nested = _nested_class(kind)
            hook = _hook(kind)
            if nested is not None:
                hook = _recalled(hook, kind)
            parts.append((json_name(field.name), hook, kind, default, field.name, nested))

    def decode(tree: Tree, like: V | None = None) -> V:
        raw = tree.get("metadata")
        if like is None:
            values: list[Any] = [tree, no_meta if raw is None else meta(raw, ObjectMeta)]
            for name, hook, kind, default, _, _ in parts:
                value = tree.get(name)
                values.append(default if value is None else hook(value, kind))
            return build(*values)
        before = like.tree
        known = None
        if raw is not None and "metadata" in before:
            known = reused(ObjectMeta, raw, before["metadata"], like.metadata)
        if known is None:
            known = no_meta if raw is None else meta(raw, ObjectMeta)
        values = [tree, known]
        for name, hook, kind, default, attribute, nested in parts:
            value = tree.get(name)
            if value is None:
                values.append(default)
                continue
            old = before.get(name)
            if value is old:
                values.append(getattr(like, attribute))
                continue
            found = None
            if nested is not None and old is not None:
                found = reused(nested, value, old, getattr(like, attribute))
            values.append(hook(value, kind) if found is None else found)
        return build(*values)

    return decode


def decode(cls: type[T], tree: Tree) -> T:
    """A part of an object (a spec, a selector, a taint) as its view class."""
    decoder: Hook = nested_decoder(cls)  # type: ignore[arg-type]
    value: T = decoder(tree, cls)
    return value
