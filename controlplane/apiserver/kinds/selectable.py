"""Field selectors: which fields of a kind may be selected, and their values.

Upstream: pkg/apis/*/v1/conversion.go (which labels are accepted) and the strategies' ToSelectableFields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from controlplane.api import fields, labels
from controlplane.api.go_values import go_value
from controlplane.api.object import Object
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds.kind import META, Kind, value_at
from controlplane.apiserver.kinds.registry import kind_of
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.schema.work import spend
from controlplane.apiserver.storage.watch_cache import Interest

if TYPE_CHECKING:
    from controlplane.api.jsonpath import JSONPath

__all__ = [
    "check_selectors",
    "field_selector",
    "interest_of",
    "label_selector",
    "matcher",
]


def _value(tree: Tree, path: str, kind: Kind) -> str:
    found = kind.value(tree, path)
    return found or (kind.selectable or META).get(path, "")


def _custom_value(tree: Tree, name: str, paths: Mapping[str, JSONPath]) -> str:
    """The text of a custom resource's field, "" when absent.

    Upstream: selectableFields in apiextensions-apiserver pkg/registry/customresource/strategy.go.
    """
    path = paths.get(name)
    if path is None:
        return value_at(tree, name)  # of metadata
    from controlplane.api.jsonpath import JSONPathError

    try:
        found = path.find_results(tree, spend)
    except JSONPathError:
        return ""
    if not found or not found[0] or found[0][0] is None:
        return ""
    return go_value(found[0][0])


def label_selector(text: str) -> labels.Selector | None:
    """The parsed labelSelector parameter, None when it selects everything. ApiError 400."""
    if not text:
        return None
    spend(len(text))
    try:
        selector = labels.parse(text)
    except labels.SelectorError as error:
        raise status.bad_request(str(error)) from None
    return None if selector.empty() else selector


def check_selectors(query: dict[str, str]) -> None:
    """Refuse selectors that cannot be read, as decoding the options does. ApiError 400."""
    label_selector(query.get("labelSelector", ""))
    _parsed_fields(query.get("fieldSelector", ""))


def _parsed_fields(text: str) -> fields.FieldSelector:
    spend(len(text) >> 1)
    try:
        return fields.parse(text)
    except labels.SelectorError as error:
        raise status.bad_request(str(error)) from None


def field_selector(info: ResourceInfo, text: str) -> fields.FieldSelector | None:
    """The parsed fieldSelector parameter, None when it selects everything. ApiError 400."""
    if not text:
        return None
    selector = _parsed_fields(text)
    kind = kind_of(info.group, info.resource)
    supported = kind.selectable or META
    if info.custom is not None:
        supported = {**META, **dict.fromkeys(info.custom.selectable_fields, "")}
    aliases = kind.aliases
    found = []
    for operator, name, value in selector:
        if not name and not value:  # selects everything
            continue
        if name not in supported and name not in aliases:
            raise status.bad_request(_unsupported(info, name))
        found.append(fields.FieldRequirement(operator, aliases.get(name, name), value))
    return fields.FieldSelector(tuple(found)) if found else None


def _unsupported(info: ResourceInfo, name: str) -> str:
    if (info.group, info.resource) == ("batch", "jobs"):
        return f'field label "{name}" not supported for Job'
    if kind_of(info.group, info.resource).selectable is not None or info.custom is not None:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


class _Matcher:
    """The match of objects against a label selector and the fields that no index covers."""

    __slots__ = ("_fields", "_labels", "_value")

    def __init__(
        self,
        selector: labels.Selector | None,
        rest: tuple[fields.FieldRequirement, ...],
        value: Callable[[Tree, str], str],
    ) -> None:
        self._labels = selector
        self._value = value
        self._fields = _by_field(rest)

    def __call__(self, obj: Object) -> bool:
        tree = obj.tree
        if self._labels is not None:
            if not self._labels.matches(tree["metadata"].get("labels") or EMPTY_MAP):
                return False
        for name, wanted, refused in self._fields:
            found = self._value(tree, name)
            if (wanted is not None and found != wanted) or found in refused:
                return False
        return True


def _by_field(
    terms: tuple[fields.FieldRequirement, ...],
) -> tuple[tuple[str, str | None, frozenset[str]], ...]:
    """Each field once, with the value that it must have, if any, and those that it must not have.

    Where no value could do, all are refused: the wanted one is among them.
    """
    found: dict[str, tuple[str | None, set[str]]] = {}
    for operator, name, value in terms:
        wanted, refused = found.get(name, (None, set()))
        if operator == "!=":
            refused.add(value)
        elif wanted is None:
            wanted = value
        elif wanted != value:
            refused.add(wanted)
        found[name] = (wanted, refused)
    return tuple((name, wanted, frozenset(refused)) for name, (wanted, refused) in found.items())


def matcher(
    selector: labels.Selector | None,
    rest: tuple[fields.FieldRequirement, ...],
    info: ResourceInfo,
) -> _Matcher | None:
    """A test for objects, None when everything passes."""
    if selector is None and not rest:
        return None
    if info.custom is not None:
        value = partial(_custom_value, paths=info.custom.selectable_fields)
    else:
        value = partial(_value, kind=kind_of(info.group, info.resource))
    return _Matcher(selector, rest, value)


def _exact_name(selector: fields.FieldSelector) -> str | None:
    """Return the name that a field selector demands, None if it demands no single one."""
    return next(
        (
            each.value
            for each in selector
            if each.field == "metadata.name" and each.operator in ("=", "==")
        ),
        None,
    )


def interest_of(info: ResourceInfo, namespace: str, name: str, query: dict[str, str]) -> Interest:
    """Return the selection of a list or watch with these parameters. ApiError 400."""
    selector = label_selector(query.get("labelSelector", ""))
    chosen = field_selector(info, query.get("fieldSelector", ""))
    if name and chosen is not None and _exact_name(chosen) != name:
        raise status.bad_request("fieldSelector metadata.name doesn't match requested name")
    rest: list[fields.FieldRequirement] = []
    node = ""
    for term in chosen or ():
        operator, field, value = term
        if operator == "=" and value:
            if field == "metadata.name" and not name:
                name = value
                continue
            if field == "metadata.namespace" and not namespace and info.namespaced:
                namespace = value
                continue
            if field == "spec.nodeName" and info.resource == "pods" and not node:
                node = value
                continue
        rest.append(term)
    return Interest(namespace, name, node, matcher(selector, tuple(rest), info))
