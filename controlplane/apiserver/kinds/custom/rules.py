"""Validation rules (`x-kubernetes-validations`) of a schema, checked when they are declared.

Upstream: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go and
pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel import CelError, PlanError, Program, compiled
from controlplane.apiserver.kinds.custom.cel.costs import Place, cost_of_all
from controlplane.apiserver.kinds.custom.cel.declared import Declared
from controlplane.apiserver.kinds.custom.cel.estimates import estimate
from controlplane.apiserver.kinds.custom.cel.types import BOOL, STRING, Type, optional_of
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    Raw,
    internal,
    invalid,
    not_supported,
    required,
)

__all__ = ["RULES", "field_path", "location", "rule_forms", "rule_mistakes", "rule_types"]

RULES: Final = "x-kubernetes-validations"
_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_STEP: Final = re.compile(r"\.([^.\[\]]++)|\['((?:\\[abfnrtv'\\]|[^'\\])*+)'\]")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def location(source: str, error: CelError, name: str = "<input>") -> str:
    """Return the positions and reasons why an expression does not compile, with each position marked.

    `name` is the source's, as the environment that compiles it calls it.
    """
    lines = []
    for at, text in error.issues:
        before = source[: max(at, 0)]
        if not source:  # upstream has no line to show
            lines.append(f"ERROR: {name}:1:0: {text}")
            continue
        row = before.count("\n")
        column = len(before) - (before.rfind("\n") + 1)
        shown = source.split("\n")[row]
        lines.append(
            f"ERROR: {name}:{row + 1}:{column + 1}: {text}\n | {shown}\n | {'.' * column}^"
        )
    return "\n".join(lines)


def _rule_value(rule: Tree) -> Raw:
    shown = {
        "Rule": rule.get("rule", ""),
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
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
        name = (
            match[1]
            if match[1] is not None
            else re.sub(r"\\(.)", lambda code: _ESCAPES.get(code[1], code[1]), match[2])
        )
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


def rule_types(rule: Tree, kind: Type) -> dict[str, Type]:
    """The types of the variables of a rule for values of this type."""
    old = optional_of(kind) if rule.get("optionalOldSelf") else kind
    return {"self": kind, "oldSelf": old}


def rule_mistakes(
    schema: Tree, path: str, place: Place, declared: Declared | None
) -> list[FieldError]:
    """Rules of this schema (not of its parts) that do not compile or cost too much.

    Args:
        schema: the schema.
        path: its place in the definition.
        place: its place among other schemas.
        declared: what the schema says of its values, None if nothing can be said.
    """
    rules = schema.get(RULES) or ()
    if rules and declared is None:
        text = (
            "internal error: failed to construct type information for x-kubernetes-validations "
            "rules: unable to convert structural schema to CEL declarations"
        )
        return [internal(f"{path}.{RULES}", text)]
    errors: list[FieldError] = []
    for index, rule in enumerate(rules):
        assert declared is not None
        here = f"{path}.{RULES}[{index}]"
        errors += _Rule(rule, here, place, declared).mistakes()
    return errors


class _Rule:
    """One rule of a schema."""

    def __init__(self, rule: Tree, here: str, place: Place, declared: Declared) -> None:
        self.rule = rule
        self.here = here
        self.place = place
        self.declared = declared
        self.types = rule_types(rule, declared.type)

    def mistakes(self) -> list[FieldError]:
        """The mistakes of the rule, in upstream's order."""
        rule, here, costs = self.rule, self.here, self.place.costs
        source = rule.get("rule", "")
        errors: list[FieldError] = []
        program, uses_old = None, False
        if source.strip():
            found = self.compiled(source, BOOL)
            if isinstance(found, Program):
                program = found
                uses_old = "oldSelf" in program.variables
            else:
                other = "cel expression must evaluate to a bool"
                errors.append(self.wrong("rule", found if isinstance(found, str) else other))
        cost = 0
        if program is not None:
            once = estimate(program.checked, self.declared).high
            cost = cost_of_all(once, self.place.many, self.declared)
        errors = [*costs.observed(cost, f"{here}.rule", "rule"), *errors]
        expression = rule.get("messageExpression")
        if program is not None and expression:
            errors += self.message_mistakes(expression)
        if uses_old and self.place.loose:
            text = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                f"{self.place.loose}"
            )
            errors.append(invalid(f"{here}.rule", source, text))
        given = rule.get("optionalOldSelf")
        if given is not None and not uses_old:
            text = "may not be set if oldSelf is not used in rule"
            errors.append(invalid(f"{here}.optionalOldSelf", given, text))
        return errors

    def message_mistakes(self, source: str) -> list[FieldError]:
        what = "messageExpression"
        found = self.compiled(source, STRING)
        if not isinstance(found, Program):
            text = f"{what} must evaluate to a string" if found is STRING else f"{what} {found}"
            return [self.wrong(what, text)]
        # Counted once, however many values there are.
        cost = estimate(found.checked, self.declared).high
        return self.place.costs.observed(cost, f"{self.here}.{what}", what)

    def wrong(self, what: str, text: str) -> FieldError:
        return FieldError("FieldValueInvalid", f"{self.here}.{what}", _rule_value(self.rule), text)

    def compiled(self, source: str, wanted: Type) -> Program | Type | str:
        """The program; the wanted type if it gives another one; or why it does not compile."""
        try:
            program = compiled(source, self.types)
        except PlanError as error:
            if error.gives is not wanted:
                return wanted
            started = "program instantiation" if wanted is BOOL else "instantiation"
            return f"{started} failed: {error}"
        except CelError as error:
            return f"compilation failed: {location(source, error)}"
        return program if program.gives is wanted else wanted
