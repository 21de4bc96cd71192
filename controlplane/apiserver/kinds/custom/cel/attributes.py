"""Values that are reached from a variable or another value by fields and indexes.

Reaching a value costs a step for the value where it begins and one for each field or index. The
branches of a condition are reached without the first step, as upstream measures them.
Upstream: cel-go interpreter/attributes.go and interpreter/planner.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

from controlplane.apiserver.kinds.custom.cel.conversions import GO_TYPES, to_string, type_name
from controlplane.apiserver.kinds.custom.cel.maps import ABSENT, Typed, find
from controlplane.apiserver.kinds.custom.cel.metering import METER
from controlplane.apiserver.kinds.custom.cel.tree import CelError
from controlplane.apiserver.kinds.custom.cel.values import Optional

__all__ = ["Attribute", "Condition", "Eval", "Qualifier", "Scope"]

Scope = dict[str, Any]
Eval = Callable[[Scope], Any]
"""Computes a part. A failure is a value too: a CelError that is not raised."""
_IN_GO: Final = {"Address": "IP", "Network": "CIDR", "Url": "URL"}


@define(eq=False)
class Qualifier:
    """A field or an index.

    Attributes:
        key: what it is, a value that computes it if `computed`.
        shown: the key as messages have it.
        optional: a missing value is no failure.
        test: only the presence is asked.
    """

    key: Any
    shown: Any
    computed: bool = False
    optional: bool = False
    test: bool = False

    def apply(self, scope: Scope, where: Any, *, optional: bool) -> Any:
        """The value in another one; `ABSENT` where an optional one is missing."""
        key = self.key
        shown = self.shown
        if self.computed:
            shown = key = key(scope)
        if self.computed and isinstance(key, CelError):
            found = key
        elif self.test and isinstance(where, Typed):
            return where.is_set(key)
        else:
            found = _found(where, key, shown, absent_fails=not (optional or self.test))
        if not optional or (found is not ABSENT and not isinstance(found, CelError)):
            scope[METER].spend(1)
        if self.test and not isinstance(found, CelError):
            return ABSENT if optional and found is ABSENT else found is not ABSENT
        return found


def _found(where: Any, key: Any, shown: Any, *, absent_fails: bool) -> Any:
    if not isinstance(key, str | int | float):
        name = type_name(key)
        kind = GO_TYPES.get(name) or f"cel.{_IN_GO.get(name, name)}"
        return CelError(f"invalid qualifier type: {kind}")
    if isinstance(where, dict):
        found = find(where, key)
        if found is not ABSENT or not absent_fails:
            return found
        told = to_string(key) if isinstance(key, bool | float) else shown
        return CelError(f"no such key: {told}")
    if isinstance(where, Typed):
        found = where.get(key)
        return CelError(f"no such key: {shown}") if found is ABSENT and absent_fails else found
    if isinstance(where, list):
        if isinstance(key, float):
            if not key.is_integer():
                return CelError(f"unsupported index value {key} in list")
            key = int(key)
        if not isinstance(key, int) or isinstance(key, bool):
            return CelError(f"unsupported index type '{type_name(key)}' in list")
        if 0 <= key < len(where):
            return where[key]
        return CelError(f"index out of bounds: {key}") if absent_fails else ABSENT
    return CelError(f"no such key: {shown}") if absent_fails else ABSENT


@define(eq=False)
class Attribute:
    """A value and the fields and indexes that lead on from it.

    Attributes:
        base: computes the value where it begins.
        qualifiers: what leads on from it.
        test: only the presence of the last one is asked.
    """

    base: Eval
    qualifiers: list[Qualifier] = field(factory=list)
    test: bool = False

    def add(self, qualifier: Qualifier) -> None:
        """Lead on by another field or index."""
        self.qualifiers.append(qualifier)

    def resolve(self, scope: Scope) -> Any:
        """The value, without the step for where it begins."""
        value = self.base(scope)
        if isinstance(value, CelError):
            return value
        optional = False
        if isinstance(value, Optional):
            if not self.qualifiers or not value.present:
                return value
            optional, value = True, value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            value = qualifier.apply(scope, value, optional=optional)
            if value is ABSENT:
                return Optional()
            if isinstance(value, CelError):
                return value
        return Optional(value, True) if optional else value

    def __call__(self, scope: Scope) -> Any:
        """The value, counted with the step for where it begins."""
        value = self.resolve(scope)
        if self.test:
            # The test itself is free: only what leads to it costs.
            return value.present if isinstance(value, Optional) else value
        scope[METER].spend(1)
        return value


@define(eq=False)
class Condition:
    """One of two values, by a condition, and the fields and indexes that lead on from either."""

    condition: Eval
    yes: Attribute | Condition
    no: Attribute | Condition
    test: bool = False

    def add(self, qualifier: Qualifier) -> None:
        """Lead on by another field or index."""
        self.yes.add(qualifier)
        self.no.add(qualifier)

    def resolve(self, scope: Scope) -> Any:
        """The value of the branch that the condition chooses."""
        chosen = self.condition(scope)
        if chosen is True:
            return self.yes.resolve(scope)
        if chosen is False:
            return self.no.resolve(scope)
        return chosen if isinstance(chosen, CelError) else CelError("no such overload")

    def __call__(self, scope: Scope) -> Any:
        """The value of the branch; choosing it costs nothing."""
        value = self.resolve(scope)
        if self.test:
            scope[METER].spent -= 1  # upstream takes off a step that it did not count
            return value.present if isinstance(value, Optional) else value
        return value
