"""The range of what a call costs, and of the size of its result.

The tables name a rule for each function, or for one of its forms where they differ
(`Overload.costs_as`). A call of any other function costs one step.
Upstream: cel-go checker/cost.go, ext/lists.go and ext/sets.go; apiserver pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Final

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.amounts import (
    LIST,
    NONE,
    ONE,
    REGEX,
    STRUCT,
    TRAVERSAL,
    UNBOUNDED,
    Range,
    exactly,
    wrapped,
)
from controlplane.apiserver.kinds.custom.cel.library import MOST_VALUES
from controlplane.apiserver.kinds.custom.cel.tree import Expr, Unsigned
from controlplane.apiserver.kinds.custom.cel.types import Type

__all__ = ["CHECK_COST", "Argument", "CallCost", "Estimate", "call_cost"]

CHECK_COST: Final = 350_000
"""A question to the authorizer: two of them are all that one expression can afford."""
_FORMAT_SIZE: Final = 64
_FORMAT_REGEX: Final = 128
"""Characters of the longest named format, and of its regular expression."""
_ADDRESS: Final = Range(4, 16)
"""Bytes of an address."""


@frozen(eq=False)
class Argument:
    """A part of a call.

    Attributes:
        expr: the part.
        type: its type.
        size: what is known of its size.
        known: its size as it follows from the expression or the schema, None without any.
        elements: what is known of the sizes of its elements, without any where it is no list.
    """

    expr: Expr
    type: Type
    size: Range
    known: bool
    elements: Callable[[], Range]


@frozen(eq=False)
class Estimate:
    """The cost of a call besides its arguments, and the size of its result where that is known."""

    cost: Range
    size: Range | None = None


CallCost = Callable[[Argument | None, list[Argument]], Estimate | None]
"""The rule of a function, for its target and arguments; None where another rule applies."""


def call_cost(
    function: str, costs_as: str, target: Argument | None, args: list[Argument]
) -> Estimate:
    """The cost of a call of one form of a function, besides its arguments."""
    for rule in (_EXTENSIONS.get(costs_as), _FUNCTIONS.get(function), _FORMS.get(costs_as)):
        if rule is not None:
            found = rule(target, args)
            if found is not None:
                return found
    return Estimate(ONE)


# -- texts ---------------------------------------------------------------------------------------


def _fixed(cost: int, _target: Argument | None, _args: list[Argument]) -> Estimate:
    return Estimate(exactly(cost))


def _read(
    factor: float, _target: Argument | None, args: list[Argument], *, gives: bool = False
) -> Estimate | None:
    """The first argument is gone through; it `gives` a text of its size."""
    if not args:
        return None
    size = args[0].size
    return Estimate(size.scaled(factor * TRAVERSAL), size if gives else None)


def _read_target(
    factor: float, target: Argument | None, _args: list[Argument], *, gives: bool = False
) -> Estimate | None:
    if target is None:
        return None
    return Estimate(target.size.scaled(factor * TRAVERSAL), target.size if gives else None)


def _searched(target: Argument | None, args: list[Argument]) -> Estimate | None:
    """A regular expression is applied; even to an empty text that costs something."""
    if target is None or not args:
        return None
    return Estimate((target.size + ONE).scaled(TRAVERSAL) * args[0].size.scaled(REGEX))


def _found(target: Argument | None, args: list[Argument]) -> Estimate | None:
    found = _searched(target, args)
    if found is None or target is None:
        return None
    return Estimate(found.cost, Range(0, target.size.high))


def _contained(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) != 1:
        return None
    return Estimate(target.size.scaled(TRAVERSAL) * args[0].size.scaled(TRAVERSAL))


def _replaced(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.size, args[0].size, args[1].size
    most, kept_most = 0, 0
    if old.low == 0:  # an empty text stands before, after and between all characters
        most, kept_most = min(size.high + 1, UNBOUNDED), size.high
    elif new.high <= old.low:
        kept_most = size.high
    else:
        most = ceil(float(size.high) / float(old.low))
    least, kept_least = 0, 0
    if old.high == 0:
        least, kept_least = min(size.low + 1, UNBOUNDED), size.low
    elif old.high <= new.low:
        kept_least = size.low
    else:
        least = ceil(float(size.low) / float(old.high))
    result = Range(least, min(most, UNBOUNDED)) * new + Range(kept_least, kept_most)
    return Estimate(size.scaled(2 * TRAVERSAL), result)


def _split(target: Argument | None, args: list[Argument]) -> Estimate | None:
    """At most every character is a part."""
    if target is None:
        return None
    most = target.size.high
    if len(args) > 1:
        limit = _whole(args[1].expr)
        most = most if limit is None else wrapped(limit)
    return Estimate(target.size.scaled(2 * TRAVERSAL), Range(0, most))


def _joined(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    size = NONE
    if target.type.params:
        size = target.size * target.elements()
    if args:
        gaps = Range(max(target.size.low - 1, 0), max(target.size.high - 1, 0))
        size = size + args[0].size * gaps
    return Estimate(size.scaled(TRAVERSAL), size)


def _added(_target: Argument | None, args: list[Argument]) -> Estimate:
    size = args[0].size + args[1].size
    return Estimate(size.scaled(TRAVERSAL), size)


def _concatenated(_target: Argument | None, args: list[Argument]) -> Estimate:
    return Estimate(ONE, args[0].size + args[1].size)


def _quoted(_target: Argument | None, args: list[Argument]) -> Estimate:
    """Every character may be escaped, and quotes stand around them."""
    size = args[0].size
    result = Range(wrapped(size.low + 2), wrapped(size.high * 2 + 2))
    return Estimate(size.scaled(TRAVERSAL), result)


def _encoded(_target: Argument | None, args: list[Argument]) -> Estimate:
    """A character takes up to four bytes."""
    size = args[0].size
    return Estimate(size.scaled(TRAVERSAL), Range(size.low, wrapped(size.high * 4)))


def _decoded(_target: Argument | None, args: list[Argument]) -> Estimate:
    size = args[0].size
    return Estimate(size.scaled(TRAVERSAL), Range(size.low // 4, size.high))


def _compared(_target: Argument | None, args: list[Argument]) -> Estimate:
    """As much is compared as the smaller one has."""
    smaller = min(args[0].size.high, args[1].size.high)
    return Estimate(Range(1 if smaller > 0 else 0, smaller).scaled(TRAVERSAL))


_EQUAL_AT_ONCE: Final = frozenset(
    (
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        *(
            f"kubernetes.authorization.{name}"
            for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
        ),
    )
)


def _equal(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    """Values of the libraries' own types cost what their size says."""
    if len(args) != 2 or args[0].type is not args[1].type:
        return None
    name = args[0].type.name
    if name in _EQUAL_AT_ONCE:
        return Estimate(ONE)
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, _FORMAT_SIZE).scaled(TRAVERSAL))
    if name == "kubernetes.URL":
        most = args[1].size.high if args[1].known else 1
        return Estimate(Range(1, most).scaled(TRAVERSAL))
    return None


# -- lists ---------------------------------------------------------------------------------------


def _traversed(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    """Every element is looked at, texts as a whole. The target may also be a text."""
    if target is None:
        return None
    if not target.type.params:
        return Estimate(target.size.scaled(TRAVERSAL))
    each = ONE
    if target.type.params[0].name in ("string", "bytes"):
        each = each + target.elements().scaled(TRAVERSAL)
    return Estimate(target.size * each)


def _in_list(_target: Argument | None, args: list[Argument]) -> Estimate:
    return Estimate(args[1].size.scaled(1))


def _made(factor: float, size: Range) -> Estimate:
    """A new list: the call, the list, and its elements."""
    return Estimate(size.scaled(factor) + ONE + exactly(LIST), size)


def _sliced(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    start, end = _count(args[0].expr, 0), _count(args[1].expr, target.size.high)
    return _made(1, exactly(wrapped(end - start)))


def _ranged(_target: Argument | None, args: list[Argument]) -> Estimate:
    return _made(1, exactly(_count(args[0].expr, UNBOUNDED)))


def _reversed(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    return None if target is None else _made(1, target.size)


def _flattened(target: Argument | None, args: list[Argument]) -> Estimate | None:
    if target is None:
        return None
    depth = _count(args[0].expr, UNBOUNDED) if args else 1
    return _made(float(depth), target.size)


def _distinct(target: Argument | None, _args: list[Argument]) -> Estimate | None:
    return None if target is None else _made(2, target.size * target.size)


def _sorted(factor: float, target: Argument | None, args: list[Argument]) -> Estimate | None:
    """A list, or the one that it is sorted by, is compared with itself."""
    by = args[0] if args else target
    return None if by is None else _made(factor, by.size * by.size)


def _sets(factor: float, _target: Argument | None, args: list[Argument]) -> Estimate:
    return Estimate((args[0].size * args[1].size).scaled(factor) + ONE)


def _whole(expr: Expr) -> int | None:
    """The whole number that a constant is."""
    value = expr.value
    if expr.op != "const" or not isinstance(value, int) or isinstance(value, bool | Unsigned):
        return None
    return value


def _count(expr: Expr, otherwise: int) -> int:
    """The number that a constant is, at least 0."""
    found = _whole(expr)
    return otherwise if found is None else max(found, 0)


# -- libraries of Kubernetes ---------------------------------------------------------------------


def _selector(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    """Each second character may begin another requirement, a list and a struct."""
    if len(args) != 1:
        return None
    size = args[0].size
    requirements = size.scaled(0.5).scaled(float(LIST + STRUCT))
    return Estimate(exactly(LIST) + size.scaled(TRAVERSAL) + requirements)


def _network_contains(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    return Estimate((_ADDRESS + _ADDRESS).scaled(TRAVERSAL)) if args else None


def _network_contains_text(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    return Estimate((_ADDRESS + _ADDRESS).scaled(TRAVERSAL) + args[0].size.scaled(TRAVERSAL))


def _network_within(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    compared = (_ADDRESS + _ADDRESS).scaled(TRAVERSAL)
    return Estimate(compared + _ADDRESS.scaled(TRAVERSAL) + ONE) if args else None


def _network_within_text(target: Argument | None, args: list[Argument]) -> Estimate | None:
    found = _network_within(target, args)
    return found and Estimate(found.cost + args[0].size.scaled(TRAVERSAL))


def _validated(_target: Argument | None, args: list[Argument]) -> Estimate | None:
    if not args:
        return None
    return Estimate(args[0].size.scaled(TRAVERSAL).scaled(_FORMAT_REGEX * REGEX))


_once = partial(_fixed, 1)
_FUNCTIONS: Final[dict[str, CallCost]] = {
    "check": partial(_fixed, CHECK_COST),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), partial(_read, 1, gives=True)),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "substring", "trim"), partial(_read_target, 1, gives=True)
    ),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _found),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"),
        partial(_read, 1),
    ),
    "ip.isCanonical": partial(_read, 2),
    "containsIP": _network_contains,
    "containsCIDR": _network_within,
    "validate": _validated,
    "_==_": _equal,
}
"""Functions of the libraries of Kubernetes; those that only read a property cost one step."""

_FORMS: Final[dict[str, CallCost]] = {
    "format": partial(_read_target, 1),
    "to_bytes": _encoded,
    "to_string": _decoded,
    "quote": _quoted,
    "affix": partial(_read, 1),
    "in_list": _in_list,
    "matches": _searched,
    "contains": _contained,
    "add_text": _added,
    "add_list": _concatenated,
    "compare_text": _compared,
    "equals": _compared,
}

_EXTENSIONS: Final[dict[str, CallCost]] = {
    "includes": lambda _target, _args: Estimate(Range(0, MOST_VALUES)),
    "slice": _sliced,
    "flatten": _flattened,
    "range": _ranged,
    "reverse": _reversed,
    "distinct": _distinct,
    "sort": partial(_sorted, 2.0),
    "sort_by": partial(_sorted, 2.0),
    "sort_text": partial(_sorted, 2.0 + TRAVERSAL),
    "sort_text_by": partial(_sorted, 2.0 + TRAVERSAL),
    "sets": partial(_sets, 1.0),
    "sets_twice": partial(_sets, 2.0),
    "member": _once,
    "containsIP_text": _network_contains_text,
    "containsCIDR_text": _network_within_text,
}
"""Forms whose rule goes before that of their function."""
