"""Validation rules (`x-kubernetes-validations`) of a schema: checked when declared, and applied."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from attrs import define

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel import (
    CelError,
    Optional,
    Program,
    compile_rule,
    compiled,
)
from controlplane.apiserver.kinds.custom.cel.costs import Place
from controlplane.apiserver.kinds.custom.cel.metering import METER, Meter
from controlplane.apiserver.kinds.custom.cel.types import (
    BOOL,
    DYN,
    STRING,
    Type,
    of_schema,
    optional_of,
)
from controlplane.apiserver.kinds.custom.cel.values import seen
from controlplane.apiserver.kinds.custom.schemas import UNSET, Former, child
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    Raw,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.schema.work import spend

__all__ = ["RULES", "apply_rules", "location", "rule_forms", "rule_mistakes",
           "ruled_places"]  # fmt: skip

RULES: Final = "x-kubernetes-validations"
_REASONS: Final = (
    "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired",
)  # fmt: skip
_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)|\['((?:\\.|[^'\\])+)'\]")
_SIGNATURE: Final = (
    "call arguments did not match a supported operator, function or macro signature for rule"
)


def ruled_places(schema: Tree) -> frozenset[int]:
    """The ids of the parts of a schema that have rules, or rules below them; of the schema itself too."""
    found: set[int] = set()

    def walk(part: Any) -> bool:
        if not isinstance(part, dict):
            return False
        inner = [*part.get("properties", {}).values(), part.get("items"),
                 part.get("additionalProperties")]  # fmt: skip
        below = [walk(each) for each in inner]
        if part.get(RULES) or any(below):
            found.add(id(part))
        return id(part) in found

    walk(schema)
    return frozenset(found)


def location(source: str, error: CelError) -> str:
    """Where and why an expression does not compile, with each place marked."""
    lines = []
    for at, text in error.issues:
        before = source[: max(at, 0)]
        if not source:  # upstream has no line to show
            lines.append(f"ERROR: <input>:1:0: {text}")
            continue
        row = before.count("\n")
        column = len(before) - (before.rfind("\n") + 1)
        shown = source.split("\n")[row]
        lines.append(f"ERROR: <input>:{row + 1}:{column + 1}: {text}\n | {shown}\n | "
                     f"{'.' * column}^")  # fmt: skip
    return "\n".join(lines)


def _rule_value(rule: Tree) -> Raw:
    shown = {
        "Rule": rule.get("rule", ""), "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""), "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""), "OptionalOldSelf": rule.get("optionalOldSelf"),
    }  # fmt: skip
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Raw(text)


def field_path(path: str, schema: Tree) -> str | None:
    """A rule's fieldPath as errors show it, or None if it leads to nothing in the schema."""
    shown, at = "", 0
    here: Any = schema
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or not isinstance(here, dict):
            return None
        at = match.end()
        name = match[1] if match[1] is not None else re.sub(r"\\(.)", r"\1", match[2])
        found = (here.get("properties") or {}).get(name)
        if found is None:
            found = here.get("additionalProperties")
            if not isinstance(found, dict):
                return None
            shown += f"[{name}]"
        else:
            shown += f".{name}"
        here = found
    return shown or None


def rule_forms(schema: Tree, path: str) -> list[FieldError]:
    """Rules of this schema (not of its parts) that are wrong whatever they say."""
    errors: list[FieldError] = []
    for index, rule in enumerate(schema.get(RULES) or ()):
        here = f"{path}.{RULES}[{index}]"
        source, message = str(rule.get("rule", "")), str(rule.get("message", ""))
        if not source.strip():
            errors.append(required(f"{here}.rule", "rule is not specified"))
        elif message and not message.strip():
            text = "message must be non-empty if specified"
            errors.append(invalid(f"{here}.message", message, text))
        elif "\n" in message.strip() or "\r" in message.strip():
            text = "message must not contain line breaks"
            errors.append(invalid(f"{here}.message", message, text))
        elif "\n" in source.strip() and not message.strip():
            text = "message must be specified if rule contains line breaks"
            errors.append(required(f"{here}.message", text))
        expression = str(rule.get("messageExpression", ""))
        if expression and not expression.strip():
            text = "messageExpression must be non-empty if specified"
            errors.append(required(f"{here}.messageExpression", text))
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(f"{here}.reason", reason, _REASONS))
        target = str(rule.get("fieldPath", ""))
        if target and not target.strip():
            text = "must be non-empty if specified"
            errors.append(invalid(f"{here}.fieldPath", target, text))
        elif "\n" in target:
            text = "must not contain line breaks"
            errors.append(invalid(f"{here}.fieldPath", target, text))
        elif target and field_path(target.strip(), schema) is None:
            errors.append(invalid(f"{here}.fieldPath", target, "must be a valid path"))
    return errors


def rule_mistakes(schema: Tree, path: str, place: Place, *, root: bool) -> list[FieldError]:
    """Rules of this schema (not of its parts) that do not compile or cost too much."""
    rules = schema.get(RULES) or ()
    kind = of_schema(schema, root=root) if rules else None
    errors: list[FieldError] = []
    if kind is None:
        return errors
    for index, rule in enumerate(rules):
        old = optional_of(kind) if rule.get("optionalOldSelf") else kind
        here = f"{path}.{RULES}[{index}]"
        types = {"self": kind, "oldSelf": old}
        program, found = _compiled_rule(rule, types, here, place.loose)
        errors += found
        if program is None:
            continue
        errors += place.costs.observed(program, schema, place.many, f"{here}.rule", "rule")
        if rule.get("messageExpression"):
            program, found = _compiled_message(rule, types, f"{here}.messageExpression")
            errors += found
            if program is not None:
                what = "messageExpression"
                errors += place.costs.observed(program, schema, place.many, f"{here}.{what}", what)
    return errors


def _compiled_rule(
    rule: Tree, types: dict[str, Type], here: str, loose: str
) -> tuple[Program | None, list[FieldError]]:
    """The compiled rule, if it compiles, and what is wrong with it."""
    source = rule.get("rule", "")
    errors: list[FieldError] = []
    problem = "cel expression must evaluate to a bool"
    try:
        program = compiled(source, types)
    except CelError as error:
        problem = f"compilation failed: {location(source, error)}"
    else:
        if program.gives in (BOOL, DYN):
            unused = "oldSelf" not in program.variables
            given = rule.get("optionalOldSelf")
            if given is not None and unused:
                text = "may not be set if oldSelf is not used in rule"
                errors.append(invalid(f"{here}.optionalOldSelf", given, text))
            if loose and not unused:
                text = (
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                    f"{loose}"
                )
                errors.append(invalid(f"{here}.rule", source, text))
            return program, errors
    return None, [FieldError("FieldValueInvalid", f"{here}.rule", _rule_value(rule), problem)]


def _compiled_message(
    rule: Tree, types: dict[str, Type], where: str
) -> tuple[Program | None, list[FieldError]]:
    """The compiled messageExpression, or what is wrong with it."""
    source = rule["messageExpression"]
    problem = "messageExpression must evaluate to a string"
    try:
        program = compiled(source, types)
        if program.gives in (STRING, DYN):
            return program, []
    except CelError as error:
        problem = f"messageExpression compilation failed: {location(source, error)}"
    return None, [FieldError("FieldValueInvalid", where, _rule_value(rule), problem)]


PER_CALL: Final = 1_000_000
"""What one rule may cost for one value. Upstream: apiserver pkg/apis/cel/config.go."""
BUDGET: Final = 10_000_000
"""What all rules may cost for one object."""
_SPENT: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_TOO_MUCH: Final = "no further validation rules will be run due to call cost exceeds limit for rule"


@define(eq=False)
class _Budget:
    """What the rules of one object have left to spend; below zero no further rule is run."""

    left: int = BUDGET

    def meter(self) -> Meter:
        return Meter(PER_CALL)


def apply_rules(
    value: Any,
    schema: Tree,
    path: str,
    old: Any = UNSET,
    budget: _Budget | None = None,
    *,
    places: frozenset[int],
) -> list[FieldError]:
    """The violations of all rules in a schema; `old` is the value's former state, if any.

    `places`: the `ruled_places` of the schema; only there is a value looked at.
    """
    errors: list[FieldError] = []
    budget = budget if budget is not None else _Budget()
    for rule in schema.get(RULES, ()):
        found = _violation(value, schema, rule, path, old, budget)
        if found is not None:
            errors.append(found)
        if budget.left < 0:
            return errors
    if isinstance(value, dict):
        more = schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        known = schema.get("properties", {})
        spend(len(value) * (1 + (len(path) >> 9)))
        for name in sorted(value):
            inner = known.get(name, more)
            if id(inner) in places:
                errors += apply_rules(value[name], inner, child(path, name),
                                      before.get(name, UNSET), budget, places=places)  # fmt: skip
            if budget.left < 0:
                return errors
    elif isinstance(value, list) and id(schema.get("items")) in places:
        former = Former(schema, old, placed=False)
        spend(len(value) * (2 + (len(path) >> 9)))
        for index, item in enumerate(value):
            was = former.of(item, index)
            errors += apply_rules(
                item, schema["items"], f"{path}[{index}]", was, budget, places=places
            )
            if budget.left < 0:
                return errors
    return errors


def _violation(
    value: Any, schema: Tree, rule: Tree, path: str, old: Any, budget: _Budget
) -> FieldError | None:
    source = rule.get("rule", "")
    meter = budget.meter()
    scope: dict[str, Any] = {"self": seen(value, schema), METER: meter}
    try:
        program = compile_rule(source)
        if "oldSelf" in program.variables:
            if rule.get("optionalOldSelf"):
                scope["oldSelf"] = Optional() if old is UNSET else Optional(seen(old, schema), True)
            elif old is UNSET:
                return None
            else:
                scope["oldSelf"] = seen(old, schema)
        elif old is not UNSET and old == value:
            return None
        passed = program.run(scope)
        budget.left -= meter.spent
        if budget.left < 0:
            return FieldError("FieldValueInvalid", path or "<nil>", schema.get("type", ""), _SPENT)
        if passed:
            return None
    except CelError as error:
        said = str(rule.get("message", "")).strip() or source
        text = f"{error} evaluating rule: {said}"
        if str(error).startswith("no such overload"):
            text = f"'{error}': {_SIGNATURE}: {said}"
        elif str(error).startswith("operation cancelled: actual cost limit exceeded"):
            text = f"'{error}': {_TOO_MUCH}: {said}"
            budget.left = -1
        else:
            budget.left -= meter.spent
        shown = schema.get("type", "")
        return FieldError("FieldValueInvalid", path or "<nil>", shown, text)
    scope[METER] = budget.meter()
    text = _message(rule, scope)
    target = rule.get("fieldPath", "").strip()
    where = path + ((field_path(target, schema) or target) if target else "")
    where = where if path else where.removeprefix(".")
    reason = rule.get("reason") or "FieldValueInvalid"
    if reason == "FieldValueDuplicate":
        text = ""
    return FieldError(reason, where or "<nil>", _shown(value, schema), text)


def _shown(value: Any, schema: Tree) -> Any:
    """Objects and lists are not shown."""
    return Raw("") if isinstance(value, (dict, list)) or not schema.get("type") else value


def _message(rule: Tree, scope: dict[str, Any]) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            text = compile_rule(expression).run(scope)
        except CelError:
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text
    if rule.get("message"):
        return str(rule["message"])
    return f"failed rule: {rule.get('rule', '')}"
