"""Validation rules (`x-kubernetes-validations`) of a schema: checked when declared, and applied."""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel import CelError, Optional, Program, compile_rule
from controlplane.apiserver.kinds.custom.schemas import PRESERVE, UNSET, child
from controlplane.apiserver.schema.field_errors import FieldError, Raw

__all__ = ["apply_rules", "has_rules", "location", "rule_mistakes"]

RULES = "x-kubernetes-validations"


def has_rules(schema: Any) -> bool:
    """Whether a schema has rules anywhere."""
    if not isinstance(schema, dict):
        return False
    if schema.get(RULES):
        return True
    inner = [*schema.get("properties", {}).values(), schema.get("items"),
             schema.get("additionalProperties")]  # fmt: skip
    return any(has_rules(part) for part in inner)


def location(source: str, error: CelError) -> str:
    """Where and why an expression does not compile, with the place marked."""
    return f"ERROR: <input>:1:{error.at + 1}: {error}\n | {source}\n | {'.' * error.at}^"


def _checked(source: str, schema: Tree) -> Program:
    """The compiled rule, with its selections known to the schema. CelError."""
    program = compile_rule(source)
    for selection in program.selections:
        here: Any = schema
        for name in selection.path:
            if not isinstance(here, dict) or here.get(PRESERVE) or here.get("type") != "object":
                break
            more = here.get("additionalProperties")
            found = here.get("properties", {}).get(name)
            if found is None and more is None:
                raise CelError(f"undefined field '{name}'", selection.at)
            here = found if found is not None else more
    return program


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


def rule_mistakes(schema: Tree, path: str) -> list[FieldError]:
    """Rules of this schema (not of its parts) that do not compile."""
    errors = []
    for index, rule in enumerate(schema.get(RULES, ())):
        source = rule.get("rule", "")
        try:
            _checked(source, schema)
        except CelError as error:
            text = f"compilation failed: {location(source, error)}"
            errors.append(FieldError("FieldValueInvalid", f"{path}.{RULES}[{index}].rule",
                                     _rule_value(rule), text))  # fmt: skip
    return errors


def apply_rules(value: Any, schema: Tree, path: str, old: Any = UNSET) -> list[FieldError]:
    """The violations of all rules in a schema; `old` is the value's former state, if any."""
    errors: list[FieldError] = []
    for rule in schema.get(RULES, ()):
        found = _violation(value, schema, rule, path, old)
        if found is not None:
            errors.append(found)
    if isinstance(value, dict):
        more = schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for name in sorted(value):
            inner = schema.get("properties", {}).get(name, more)
            if isinstance(inner, dict):
                errors += apply_rules(value[name], inner, child(path, name),
                                      before.get(name, UNSET))  # fmt: skip
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            was = _before(item, schema, old)
            errors += apply_rules(item, schema["items"], f"{path}[{index}]", was)
    return errors


def _before(item: Any, schema: Tree, old: Any) -> Any:
    """The former state of a list's element: known only in lists of type map."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return UNSET
    wanted = [item.get(key) for key in keys]
    return next((was for was in old if [was.get(key) for key in keys] == wanted), UNSET)


def _violation(value: Any, schema: Tree, rule: Tree, path: str, old: Any) -> FieldError | None:
    source = rule.get("rule", "")
    scope: dict[str, Any] = {"self": value}
    try:
        program = compile_rule(source)
        if "oldSelf" in program.variables:
            if rule.get("optionalOldSelf"):
                scope["oldSelf"] = Optional() if old is UNSET else Optional(old, True)
            elif old is UNSET:
                return None
            else:
                scope["oldSelf"] = old
        elif old is not UNSET and old == value:
            return None
        if program.run(scope):
            return None
    except CelError as error:
        said = str(rule.get("message", "")).strip() or source
        text = f"{error} evaluating rule: {said}"
        shown = schema.get("type", "")
        return FieldError("FieldValueInvalid", path or "<nil>", shown, text)
    text = _message(rule, scope)
    where = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "")[1:]
    reason = rule.get("reason") or "FieldValueInvalid"
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
