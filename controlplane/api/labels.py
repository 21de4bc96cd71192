"""Label selectors: from text, from LabelSelector objects, and what they match.

Rules and messages are those of apimachinery's `labels` package and `LabelSelectorAsSelector`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from controlplane.api.equality import remembered
from controlplane.api.many_requirements import FEW, ManyRequirements
from controlplane.api.meta import LabelSelector
from controlplane.api.validation import (
    aggregate,
    child,
    invalid,
    label_key_errors,
    label_value_errors,
    not_supported,
    parse_int64,
    quote,
)
from controlplane.sharing.memory import by_identity

IN: Final = "in"
NOT_IN: Final = "notin"
EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER_THAN: Final = "gt"
LESS_THAN: Final = "lt"

_BINARY: Final = (IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS, GREATER_THAN, LESS_THAN)
_SHOWN: Final = {EQUALS: "=", DOUBLE_EQUALS: "==", NOT_EQUALS: "!=", IN: " in ",
                 NOT_IN: " notin ", GREATER_THAN: ">", LESS_THAN: "<"}  # fmt: skip
_OBJECT_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS,
                            "DoesNotExist": DOES_NOT_EXIST}  # fmt: skip


class SelectorError(ValueError):
    """A selector that is not valid; `messages` are the single errors, the text joins them."""

    def __init__(self, *messages: str) -> None:
        super().__init__(aggregate(messages))
        self.messages = messages


class Requirement:
    """One condition on one label. Built unchecked; `requirement` checks."""

    __slots__ = ("_bound", "_wanted", "key", "operator", "values")

    def __init__(self, key: str, operator: str, values: tuple[str, ...] = ()) -> None:
        self.key = key
        self.operator = operator
        self.values = values
        self._wanted = frozenset(values)
        self._bound = parse_int64(values[0]) if len(values) == 1 else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a set of labels meets the condition."""
        operator = self.operator
        value = labels.get(self.key)
        if operator in (EQUALS, DOUBLE_EQUALS, IN):
            return value is not None and value in self._wanted
        if operator in (NOT_EQUALS, NOT_IN):
            return value is None or value not in self._wanted
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        number = None if value is None else parse_int64(value)
        if number is None or self._bound is None:
            return False
        return number > self._bound if operator == GREATER_THAN else number < self._bound

    @property
    def one_of(self) -> frozenset[str] | None:
        """The values that the label must have one of; None where it is no such condition."""
        return self._wanted if self.operator in (EQUALS, DOUBLE_EQUALS, IN) else None

    @property
    def none_of(self) -> frozenset[str] | None:
        """The values that the label must have none of; None where it is no such condition."""
        return self._wanted if self.operator in (NOT_EQUALS, NOT_IN) else None

    def tighter_than(self, other: Requirement) -> bool:
        """Return whether a condition of the same operator on the same label lets less pass."""
        if self._bound is None or other._bound is None:
            return other._bound is not None
        if self.operator == GREATER_THAN:
            return self._bound > other._bound
        return self.operator == LESS_THAN and self._bound < other._bound

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        joined = ",".join(sorted(self.values))
        if self.operator in (IN, NOT_IN):
            joined = f"({joined})"
        return f"{self.key}{_SHOWN[self.operator]}{joined}"

    def __repr__(self) -> str:
        return f"Requirement({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Requirement)
            and (self.key, self.operator) == (other.key, other.operator)
            and sorted(self.values) == sorted(other.values)
        )

    def __hash__(self) -> int:
        return hash((self.key, self.operator, self._wanted))


def requirement(key: str, operator: str, values: Iterable[str], path: str = "") -> Requirement:
    """A checked requirement; SelectorError names the fields below `path`."""
    values = tuple(values)
    errors: list[str] = []
    key_errors = label_key_errors(key)
    if key_errors:
        errors.append(invalid(child(path, "key"), key, "; ".join(key_errors)))
    at = child(path, "values")
    if operator in (IN, NOT_IN):
        if not values:
            errors.append(
                invalid(at, values, "for 'in', 'notin' operators, values set can't be empty")
            )
    elif operator in (EQUALS, DOUBLE_EQUALS, NOT_EQUALS):
        if len(values) != 1:
            errors.append(
                invalid(at, values, "exact-match compatibility requires one single value")
            )
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            errors.append(
                invalid(at, values, "values set must be empty for exists and does not exist")
            )
    elif operator in (GREATER_THAN, LESS_THAN):
        if len(values) != 1:
            errors.append(
                invalid(at, values, "for 'Gt', 'Lt' operators, exactly one value is required")
            )
        errors += [
            invalid(f"{at}[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, value in enumerate(values)
            if parse_int64(value) is None
        ]
    else:
        supported = (*_BINARY, EXISTS, DOES_NOT_EXIST)
        errors.append(not_supported(child(path, "operator"), operator, supported))
    for i, value in enumerate(values):
        value_errors = label_value_errors(value)
        if value_errors:
            errors.append(invalid(f"{at}[{i}][{key}]", value, "; ".join(value_errors)))
    if errors:
        raise SelectorError(*errors)
    return Requirement(key, operator, values)


class Selector:
    """Requirements that must all hold, sorted by key; `NOTHING` matches no object."""

    __slots__ = ("_equalities", "_many", "_others", "_text", "nothing", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda item: item.key))
        self.nothing = nothing
        self._text: str | None = None
        self._many = ManyRequirements(self.requirements) if len(self.requirements) > FEW else None
        self._equalities = tuple(
            (item.key, item.values[0])
            for item in self.requirements
            if item.operator in (EQUALS, DOUBLE_EQUALS, IN) and len(item.values) == 1
        )
        self._others = tuple(
            item
            for item in self.requirements
            if item.operator not in (EQUALS, DOUBLE_EQUALS, IN) or len(item.values) != 1
        )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a set of labels meets every requirement."""
        if self.nothing:
            return False
        if self._many is not None:
            return self._many.matches(labels)
        for key, value in self._equalities:
            if labels.get(key) != value:
                return False
        return not self._others or all(item.matches(labels) for item in self._others)

    @property
    def equality(self) -> tuple[str, str] | None:
        """A label that everything has that is selected, by key and value; None if there is none."""
        return self._equalities[0] if self._equalities else None

    def empty(self) -> bool:
        """Return whether the selector restricts nothing."""
        return not self.requirements and not self.nothing

    def selectable(self) -> bool:
        """Return whether anything at all could match."""
        return not self.nothing

    def add(self, *more: Requirement) -> Selector:
        """A selector with further requirements; nothing stays nothing."""
        return self if self.nothing else Selector((*self.requirements, *more))

    def __iter__(self) -> Iterator[Requirement]:
        return iter(self.requirements)

    def __str__(self) -> str:
        if self._text is None:
            self._text = ",".join(map(str, self.requirements))
        return self._text

    def __repr__(self) -> str:
        return "Selector(nothing)" if self.nothing else f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Selector)
            and self.nothing == other.nothing
            and self.requirements == other.requirements
        )

    def __hash__(self) -> int:
        return hash((self.nothing, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def from_set(labels: Mapping[str, str]) -> Selector:
    """The selector of exactly these labels, unchecked (as for `spec.nodeSelector`)."""
    if not labels:
        return EVERYTHING
    return Selector(Requirement(key, EQUALS, (value,)) for key, value in labels.items())


def from_label_selector(selector: LabelSelector | None) -> Selector:
    """The selector that an API object stands for; None selects nothing, {} everything."""
    if selector is None:
        return NOTHING
    if not selector.match_labels and not selector.match_expressions:
        return EVERYTHING
    if not selector.match_expressions and len(selector.match_labels) <= FEW:
        return _of_few(selector)
    return _of_object(selector)


def _of_object(selector: LabelSelector) -> Selector:
    items = [requirement(key, EQUALS, (value,)) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(
                f"{quote(expression.operator)} is not a valid label selector operator"
            )
        items.append(requirement(expression.key, operator, expression.values))
    return Selector(items)


_of_few = by_identity(_of_object)
"""Controllers ask for the same few labels with every turn."""


def format_label_selector(selector: LabelSelector | None) -> str:
    """The text that printers show for a selector object."""
    try:
        return str(from_label_selector(selector)) or "<none>"
    except SelectorError:
        return "<error>"


_SPECIAL: Final = "=!(),><"
_SPACE: Final = " \t\r\n"
_IDENTIFIER: Final = "identifier"
_END: Final = "end"
_KEYWORDS: Final = (IN, NOT_IN)
_AHEAD: Final = 8
"""No more tokens are taken at once beyond the last one."""


def _tokens(text: str) -> list[tuple[str, str]]:
    """(token, literal) pairs up to the end or a NUL byte."""
    text = text.partition("\0")[0]
    found = []
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if char in _SPACE:
            at += 1
        elif char in _SPECIAL:
            pair = text[at : at + 2]
            literal = pair if pair in (DOUBLE_EQUALS, NOT_EQUALS) else char
            found.append((literal, literal))
            at += len(literal)
        else:
            start = at
            while at < end and text[at] not in _SPECIAL and text[at] not in _SPACE:
                at += 1
            literal = text[start:at]
            found.append((literal if literal in _KEYWORDS else _IDENTIFIER, literal))
    found.append((_END, ""))
    return found


_OPERATOR_TOKENS: Final = {IN: IN, NOT_IN: NOT_IN, "=": EQUALS, "==": DOUBLE_EQUALS,
                           "!=": NOT_EQUALS, ">": GREATER_THAN, "<": LESS_THAN}  # fmt: skip


class _Parser:
    """Recursive descent over the tokens; keywords count as identifiers except as operators."""

    def __init__(self, text: str) -> None:
        self._items = _tokens(text)
        self._items += [self._items[-1]] * _AHEAD
        self._at = 0

    def _peek(self) -> tuple[str, str]:
        item = self._items[self._at]
        return (_IDENTIFIER, item[1]) if item[0] in _KEYWORDS else item

    def _take(self) -> tuple[str, str]:
        item = self._items[self._at]
        self._at += 1
        return (_IDENTIFIER, item[1]) if item[0] in _KEYWORDS else item

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, literal = self._peek()
            if kind == _END:
                return found
            if kind not in (_IDENTIFIER, "!"):
                raise SelectorError(
                    f"found '{literal}', expected: !, identifier, or 'end of string'"
                )
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, literal = self._take()
            if kind == _END:
                return found
            if kind != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self._peek()
            if kind not in (_IDENTIFIER, "!"):
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, key = self._take()
        operator = ""
        if kind == "!":
            operator = DOES_NOT_EXIST
            kind, key = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{key}', expected: identifier")
        key_errors = label_key_errors(key)
        if key_errors:
            raise SelectorError(invalid("<nil>", key, "; ".join(key_errors)))
        if operator or self._peek()[0] in (_END, ","):
            return requirement(key, operator or EXISTS, ())
        kind, literal = self._items[self._at]
        self._at += 1
        if kind not in _OPERATOR_TOKENS:
            raise SelectorError(f"found '{literal}', expected: {', '.join(_BINARY)}")
        operator = _OPERATOR_TOKENS[kind]
        values = self._values() if operator in (IN, NOT_IN) else self._exact_value()
        return requirement(key, operator, sorted(values))

    def _exact_value(self) -> dict[str, None]:
        if self._peek()[0] in (_END, ","):
            return {"": None}
        kind, literal = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{literal}', expected: identifier")
        return {literal: None}

    def _values(self) -> dict[str, None]:
        kind, literal = self._take()
        if kind != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self._peek()
        if kind == ")":
            self._take()
            return {"": None}
        if kind not in (_IDENTIFIER, ","):
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self._list()
        self._take()
        return values

    def _list(self) -> dict[str, None]:
        """The values up to, not including, the closing parenthesis; gaps count as ""."""
        values: dict[str, None] = {}
        while True:
            kind, literal = self._take()
            following, next_literal = self._peek()
            if kind == _IDENTIFIER:
                values[literal] = None
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{next_literal}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in (")", ","):
                    values[""] = None
                if following == ")":
                    return values
                if following == ",":
                    self._take()
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")


@remembered(4096)
def parse(text: str) -> Selector:
    """The selector of a `labelSelector` parameter; SelectorError with upstream's message."""
    return Selector(_Parser(text).parse())
