"""Objects of KWOK that tell something of pods: one of a pod's name, or one for the pods that it selects.

An object has entries for names (of containers, or numbers of ports); an entry without names is for all others. A pod's
own object comes first and is then the only one that is asked; among the others it is the first whose selector matches
and that has an entry. Upstream: getPodLogs, getPodAttach, getExecTarget, getPodsForward in pkg/kwok/server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.kwok.fields import Fields, fields_of, name_of

__all__ = ["Choice", "Entry", "Rule", "Selector", "choose", "read"]

T = TypeVar("T")
CLUSTER: Final = "Cluster"


@frozen
class Selector:
    """The pods of some namespaces, with some names; empty ones select all."""

    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def selects(self, namespace: str, name: str) -> bool:
        """Return whether a pod is selected."""
        return (not self.namespaces or namespace in self.namespaces) and (
            not self.names or name in self.names
        )


@frozen
class Entry(Generic[T]):
    """A value for the containers or ports in `names`; with no names, for all others."""

    names: tuple[str | int, ...]
    value: T


@frozen
class Rule(Generic[T]):
    """One object: for the pod of its name (`own`), or for the pods that the selector selects."""

    selector: Selector
    entries: tuple[Entry[T], ...]
    own: bool = False

    def value(self, name: str | int) -> T | None:
        """Return what is told of a container or port; None where nothing is."""
        of_all: Entry[T] | None = None
        for each in self.entries:
            if not each.names and of_all is None:
                of_all = each
            elif name in each.names:
                return each.value
        return None if of_all is None else of_all.value


@frozen
class Choice(Generic[T]):
    """The selected value; `own`: it comes from the object of the pod's own name, which excludes all others."""

    value: T | None
    own: bool


def choose(rules: Iterable[Rule[T]], namespace: str, pod: str, name: str | int) -> Choice[T]:
    """Return what the objects tell of a container or port of a pod."""
    selecting = [each for each in rules if each.selector.selects(namespace, pod)]
    for each in selecting:
        if each.own:
            return Choice(each.value(name), True)
    values = (each.value(name) for each in selecting)
    return Choice(next((each for each in values if each is not None), None), False)


def read(
    tree: Tree, place: str, listed: str, entry: Callable[[Fields, Any, str], Entry[T]]
) -> Rule[T]:
    """Return the rule of an object. Raises UsageError with the field.

    Args:
        tree: the object; one whose kind begins with Cluster has a selector, another is for the pod of its name.
        place: its file, for errors.
        listed: the field of `spec` that has the entries.
        entry: reads one of them.
    """
    fields = fields_of(tree, place)
    spec = fields.map(tree.get("spec"), "spec")
    own = not str(tree.get("kind")).startswith(CLUSTER)
    fields.known(spec, (listed,) if own else ("selector", listed), "spec")
    if own:
        namespace = (tree.get("metadata") or {}).get("namespace") or "default"
        selector = Selector((namespace,), (name_of(tree),))
    else:
        selector = _selector(fields, spec.get("selector"))
    given = fields.list(spec.get(listed), f"spec.{listed}")
    entries = (entry(fields, each, f"spec.{listed}[{at}]") for at, each in enumerate(given))
    return Rule(selector, tuple(entries), own)


def _selector(fields: Fields, value: Any) -> Selector:
    tree = fields.map(value, "spec.selector")
    fields.known(tree, ("matchNamespaces", "matchNames"), "spec.selector")
    return Selector(
        *(
            fields.texts(tree.get(name), f"spec.selector.{name}")
            for name in ("matchNamespaces", "matchNames")
        )
    )
