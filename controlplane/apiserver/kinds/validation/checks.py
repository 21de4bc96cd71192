"""The commonest small rules, each as one call: declarative rules are made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)

__all__ = ["choice", "entries", "exclusive_star", "named", "present", "problems", "repeated"]


def present(tree: Tree, key: str, path: str, detail: str = "") -> list[FieldError]:
    """The field is there and not empty."""
    return [] if tree.get(key) else [required(f"{path}.{key}" if path else key, detail)]


def problems(path: str, value: Any, texts: Iterable[str]) -> list[FieldError]:
    """One violation for each text."""
    return [invalid(path, value, text) for text in texts]


def named(
    tree: Tree, key: str, path: str, rule: Callable[[str], names.Problems] = names.dns_subdomain
) -> list[FieldError]:
    """The field is there, and a name by the rule."""
    value = tree.get(key) or ""
    return problems(f"{path}.{key}", value, rule(value)) if value else present(tree, key, path)


def choice(
    tree: Tree, key: str, path: str, allowed: tuple[str, ...], *, needed: bool = True
) -> list[FieldError]:
    """The field is one of the words; sorted when listed."""
    value = tree.get(key)
    place = f"{path}.{key}" if path else key
    if value is None or (needed and not value):
        return [required(place)] if needed else []
    return [] if value in allowed else [not_supported(place, value, allowed)]


def entries(tree: Tree, key: str, path: str) -> Iterator[tuple[Tree, str]]:
    """The items of a list, each with its place."""
    place = f"{path}.{key}" if path else key
    for index, item in enumerate(tree.get(key) or ()):
        yield item, f"{place}[{index}]"


def repeated(items: Iterable[tuple[Any, str]]) -> list[FieldError]:
    """Values (with their places) that stood before; empty ones may repeat."""
    seen: set[Any] = set()
    errors = []
    for value, place in items:
        if value and value in seen:
            errors.append(duplicate(place, value))
        seen.add(value)
    return errors


def exclusive_star(values: list[str], path: str, others: str) -> list[FieldError]:
    """A wildcard stands alone."""
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {others}")]
    return []
