"""Validation rules (`x-kubernetes-validations`) applied to values, within a budget.

Upstream: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from attrs import define, frozen

from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds.custom.cel import CelError, Optional, Program, compiled
from controlplane.apiserver.kinds.custom.cel.declared import Declared, declared, escaped
from controlplane.apiserver.kinds.custom.cel.metering import CANCELLED, METER, Meter
from controlplane.apiserver.kinds.custom.cel.values import seen
from controlplane.apiserver.kinds.custom.rules import RULES, field_path, location, rule_types
from controlplane.apiserver.kinds.custom.schemas import UNSET, Former, child
from controlplane.apiserver.schema.field_errors import FieldError, Raw, invalid
from controlplane.apiserver.schema.work import spend

__all__ = ["BUDGET", "PER_CALL", "Budget", "Ruled", "apply_rules", "ruled_places"]

PER_CALL: Final = 1_000_000
"""Limit of the cost of one rule for one value. Upstream: apiserver pkg/apis/cel/config.go."""
BUDGET: Final = 10_000_000
"""Limit of the cost of all rules for one object."""
_MESSAGE_SIZE: Final = 5 * 1024
"""Bytes that a computed message may have."""
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_NO_FURTHER: Final = "no further validation rules will be run"
_SPENT: Final = f"validation failed due to running out of cost budget, {_NO_FURTHER}"
_TOO_MUCH: Final = f"{_NO_FURTHER} due to call cost exceeds limit for rule"
_SIGNATURE: Final = (
    "call arguments did not match a supported operator, function or macro signature for rule"
)


@frozen(eq=False)
class _Rule:
    """A rule, ready to run, or why it does not compile."""

    rule: Tree
    program: Program | None
    message: Program | None
    error: str = ""

    @property
    def uses_old(self) -> bool:
        """A transition rule: it asks for the former value."""
        return self.program is not None and "oldSelf" in self.program.variables


class Ruled:
    """The parts of a schema that have rules or rules below them, compiled when first applied."""

    def __init__(self, schema: Tree) -> None:
        self._below = _parts_with_rules(schema)
        self._rules: dict[int, tuple[_Rule, ...]] = {}
        self._declared: dict[tuple[int, bool], Declared | None] = {}

    def __bool__(self) -> bool:
        return bool(self._below)

    def __contains__(self, schema: object) -> bool:
        return id(schema) in self._below

    def declared(self, schema: Tree, *, root: bool) -> Declared | None:
        """The declaration of a part, worked out once."""
        key = id(schema), root
        if key not in self._declared:
            self._declared[key] = declared(schema, root=root)
        return self._declared[key]

    def rules(self, schema: Tree, kind: Declared | None) -> tuple[_Rule, ...]:
        """The rules of a part, compiled for values of its type."""
        found = self._rules.get(id(schema))
        if found is None:
            found = tuple(_compiled(rule, kind) for rule in schema.get(RULES) or ())
            self._rules[id(schema)] = found
        return found


def ruled_places(schema: Tree) -> Ruled:
    """The parts of a schema that have rules or rules below them; the schema must outlive them."""
    return Ruled(schema)


def _parts_with_rules(schema: Tree) -> frozenset[int]:
    found: set[int] = set()

    def walk(part: Any) -> bool:
        if not isinstance(part, dict):
            return False
        inner = [
            *(part.get("properties") or {}).values(),
            part.get("items"),
            part.get("additionalProperties"),
            *(part.get("allOf") or ()),
        ]
        below = [walk(each) for each in inner]
        if part.get(RULES) or any(below):
            found.add(id(part))
        return id(part) in found

    walk(schema)
    return frozenset(found)


def _compiled(rule: Tree, kind: Declared | None) -> _Rule:
    source, expression = rule.get("rule", ""), rule.get("messageExpression", "")
    if kind is None or not source.strip():
        return _Rule(rule, None, None)
    types = rule_types(rule, kind.type)
    try:
        program = compiled(source, types)
    except CelError as error:
        return _Rule(rule, None, None, f"compilation failed: {location(source, error)}")
    message = None
    if expression:
        try:
            message = compiled(expression, types)
        except CelError:
            message = None
    return _Rule(rule, program, message)


@define(eq=False)
class Budget:
    """The budget of the rules of one object; below zero no further rule is run."""

    left: int = BUDGET


@frozen(eq=False)
class _Before:
    """The former state of a value.

    Attributes:
        known: it, for rules that ask for it; UNSET if there is none.
        value: the value.
        equal: it, for telling what has not changed; UNSET if nothing corresponds to the value.
        around: the nearest value around that has a former state.
    """

    value: Any
    known: Any = UNSET
    equal: Any = UNSET
    around: _Before | None = None

    def unchanged(self) -> bool:
        """True where the value, or the one around that corresponds to a former one, has not changed."""
        if self.equal is not UNSET:
            return bool(self.value == self.equal)
        return self.around is not None and self.around.unchanged()

    def inner(self, value: Any, known: Any, equal: Any) -> _Before:
        """The former state of a value within this one."""
        if self.equal is UNSET:
            return _Before(value, known, UNSET, self.around)
        return _Before(value, known, equal, self)


def apply_rules(
    value: Any,
    schema: Tree,
    path: str,
    old: Any = UNSET,
    *,
    places: Ruled,
    root: bool = True,
    budget: Budget | None = None,
) -> list[FieldError]:
    """The violations of all rules in a schema.

    Args:
        value: the value.
        schema: its schema.
        path: its place, as errors show it.
        old: the value's former state, if any.
        places: the `ruled_places` of the schema.
        root: the value is a resource.
        budget: what may be spent, that of one object if it is not given.
    """
    old = UNSET if old is None else old
    walk = _Walk(places, Budget() if budget is None else budget)
    before = _Before(value, old, old)
    kind = places.declared(schema, root=root)
    return list(walk.errors(schema, schema, path, before, kind, root=root))


@frozen(eq=False)
class _Walk:
    """Goes through a value and its schema."""

    places: Ruled
    budget: Budget

    def errors(
        self,
        rules: Tree,
        schema: Tree,
        path: str,
        before: _Before,
        kind: Declared | None,
        *,
        root: bool = False,
    ) -> Iterator[FieldError]:
        """The violations of rules, which may stand in an `allOf` of the schema of the value."""
        value = before.value
        if value is None or rules not in self.places:
            return
        if rules.get(RULES):
            yield from self.own(rules, schema, path, before, kind)
        for part in rules.get("allOf") or ():
            if self.budget.left < 0:
                return
            outer = _Before(value, before.known, UNSET, before.around)
            yield from self.errors(part, schema, path, outer, kind, root=root)
        if self.budget.left < 0:
            return
        if isinstance(value, dict):
            yield from self.fields(rules, schema, path, before, kind)
        elif isinstance(value, list):
            yield from self.items(rules, schema, path, before, kind)

    def fields(
        self, rules: Tree, schema: Tree, path: str, before: _Before, kind: Declared | None
    ) -> Iterator[FieldError]:
        value, old = before.value, before.known
        known, more = rules.get("properties") or {}, rules.get("additionalProperties")
        former = old if isinstance(old, dict) else {}
        same = before.equal if isinstance(before.equal, dict) else {}
        spend(len(value) * (1 + (len(path) >> 9)))
        for name in sorted(value):
            part = known.get(name)
            named = part is not None
            part = part if named else more
            if part is None or part not in self.places:
                continue
            spine = (
                (schema.get("properties") or {}).get(name)
                if named
                else (schema.get("additionalProperties"))
            )
            if not isinstance(spine, dict):
                continue
            was = former.get(name)
            inner = before.inner(value[name], UNSET if was is None else was, same.get(name, UNSET))
            if (
                before.around is None
                and before.equal is not UNSET
                and name in ("apiVersion", "kind")
            ):
                inner = _Before(value[name], inner.known)
            where = child(path, name) if named else f"{path}[{name}]"
            declared_part = _field(kind, name, spine) if named else (kind and kind.element)
            yield from self.errors(
                part, spine, where, inner, declared_part, root=bool(spine.get(_EMBEDDED))
            )
            if self.budget.left < 0:
                return

    def items(
        self, rules: Tree, schema: Tree, path: str, before: _Before, kind: Declared | None
    ) -> Iterator[FieldError]:
        part, spine = rules.get("items"), schema.get("items")
        if part not in self.places or not isinstance(spine, dict) or not isinstance(part, dict):
            return
        value = before.value
        keyed = schema.get("x-kubernetes-list-type") == "map"
        former = Former(schema, before.known, placed=False)
        spend(len(value) * (2 + (len(path) >> 9)))
        for index, item in enumerate(value):
            was = former.of(item, index) if keyed else UNSET
            inner = before.inner(item, was, was)
            yield from self.errors(
                part,
                spine,
                f"{path}[{index}]",
                inner,
                kind and kind.element,
                root=bool(spine.get(_EMBEDDED)),
            )
            if self.budget.left < 0:
                return

    def own(
        self, rules: Tree, schema: Tree, path: str, before: _Before, kind: Declared | None
    ) -> Iterator[FieldError]:
        """The violations of the rules of one part."""
        shown = schema.get("type", "")
        if self.budget.left <= 0:
            self.budget.left = -1
            yield invalid(path or "<nil>", shown, _SPENT)
            return
        value = seen(before.value, schema)
        old = UNSET if before.known is UNSET else seen(before.known, schema)
        for rule in self.places.rules(rules, kind):
            if rule.error:
                yield invalid(path or "<nil>", shown, f"rule compile error: {rule.error}")
            elif rule.program is not None:
                found = self.violation(rule, schema, path, before, value, old)
                if found is not None:
                    yield found
            if self.budget.left < 0:
                return

    def violation(
        self, rule: _Rule, schema: Tree, path: str, before: _Before, value: Any, old: Any
    ) -> FieldError | None:
        """Return the error by which a value violates a rule; None if it does not."""
        where, shown = path or "<nil>", schema.get("type", "")
        scope: dict[str, Any] = {"self": value}
        optional = bool(rule.rule.get("optionalOldSelf"))
        if rule.uses_old and old is UNSET and not optional:
            return None
        if old is not UNSET:
            scope["oldSelf"] = old
        given = scope
        if optional:
            given = {**scope, "oldSelf": Optional() if old is UNSET else Optional(old, True)}
        assert rule.program is not None
        said = _said(rule.rule)
        try:
            passed = self.run(rule.program, given)
        except _SpentError:
            return invalid(where, shown, _SPENT)
        except CelError as error:
            text = f"{error} evaluating rule: {said}"
            if str(error).startswith(CANCELLED):
                self.budget.left = -1
                text = f"'{error}': {_TOO_MUCH}: {said}"
            if str(error).startswith("no such overload"):
                text = f"'{error}': {_SIGNATURE}: {said}"
            return invalid(where, shown, text)
        if passed is True:
            return None
        target = field_path(rule.rule.get("fieldPath", "").strip(), schema)
        spot = (path + (target or "")).removeprefix(".") or "<nil>"
        found = self.told(rule, schema, spot, before.value, scope)
        return None if not rule.uses_old and before.unchanged() else found

    def told(
        self, rule: _Rule, schema: Tree, where: str, value: Any, scope: dict[str, Any]
    ) -> FieldError:
        """The error of a rule that does not hold."""
        text = ""
        if rule.message is not None:
            source = rule.rule["messageExpression"]
            try:
                text = _message(self.run(rule.message, scope))
            except _SpentError:
                spent = f"messageExpression evaluation failed due to running out of cost budget, {_NO_FURTHER}"
                return invalid(where, schema.get("type", ""), spent)
            except CelError as error:
                if str(error).startswith(CANCELLED):
                    self.budget.left = -1
                    spent = (
                        f"{_NO_FURTHER} due to call cost exceeds limit for messageExpression: "
                        f"{quote(source)}"
                    )
                    return invalid(where, schema.get("type", ""), spent)
        text = text or _default_message(rule.rule)
        reason = rule.rule.get("reason") or "FieldValueInvalid"
        if reason == "FieldValueDuplicate":
            text = ""
        return FieldError(reason, where, _shown(value, schema), text)

    def run(self, program: Program, scope: dict[str, Any]) -> Any:
        """The value of an expression; its cost is taken off the budget."""
        meter = Meter(PER_CALL)
        try:
            return program.run({**scope, METER: meter})
        except KeyError as error:
            raise CelError(f"no such attribute(s): {error.args[0]}") from None
        finally:
            if meter.spent > self.budget.left:
                self.budget.left = -1
                raise _SpentError("")
            self.budget.left -= meter.spent


class _SpentError(CelError):
    """The budget of the object is used up."""


def _field(kind: Declared | None, name: str, schema: Tree) -> Declared | None:
    """The declaration of a field of an object; a field that has no identifier stands for itself."""
    code = escaped(name)
    if code is None:
        return declared(schema, root=bool(schema.get(_EMBEDDED)))
    return None if kind is None or kind.fields is None else kind.fields.get(code)


def _said(rule: Tree) -> str:
    """The rule as errors of its evaluation show it."""
    message = rule.get("message", "")
    return str(message).strip() if message else str(rule.get("rule", "")).strip()


def _default_message(rule: Tree) -> str:
    if rule.get("message"):
        return str(rule["message"]).strip()
    return f"failed rule: {str(rule.get('rule', '')).strip()}"


def _message(text: Any) -> str:
    """A computed message; "" if it is no good one."""
    text = text.strip() if isinstance(text, str) else ""
    return "" if "\n" in text or len(text.encode()) > _MESSAGE_SIZE else text


def _shown(value: Any, schema: Tree) -> Any:
    """Objects and lists are not shown."""
    return Raw("") if schema.get("type") in ("object", "array") else value
