"""Values of jq: their order, paths into them, and what the operators make of two of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

__all__ = [
    "BINARY", "JqError", "contains", "delete_paths", "entries", "get_path", "index", "is_number", "order_key",
    "set_path", "text_of", "told", "truth", "type_name", "weight",
]  # fmt: skip

LONGEST: Final = 1 << 20
"""The most elements or characters of what an operation makes."""
_RANKS: Final = {"null": 0, "boolean": 1, "number": 3, "string": 4, "array": 5, "object": 6}
_SHOWN: Final = 60


class JqError(Exception):
    """A failure of a program at its input; `value` is what `catch` gets."""

    def __init__(self, message: str, value: Any = None) -> None:
        super().__init__(message)
        self.value = message if value is None else value


def is_number(value: Any) -> bool:
    """Return True for numbers, of which booleans are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def truth(value: Any) -> bool:
    """Return False for null and false alone."""
    return value is not None and value is not False


def type_name(value: Any) -> str:
    """Return the name that `type` gives."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def weight(value: Any) -> int:
    """Return the number of elements or characters, for the count of steps."""
    return 1 + len(value) // 16 if isinstance(value, (str, list, dict)) else 1


def text_of(value: Any) -> str:
    """Return a value as compact JSON with sorted keys, numbers as gojq writes them."""
    return json.dumps(_printable(value), separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _printable(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return math.copysign(1.7976931348623157e308, value)
        return int(value) if value.is_integer() and abs(value) < 1e17 else value
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    return value


def told(value: Any) -> str:
    """Return the type and the text of a value, for errors."""
    text = text_of(value)
    return f"{type_name(value)} ({text if len(text) <= _SHOWN else text[:_SHOWN] + '...'})"


def order_key(value: Any) -> Any:
    """Return a key that sorts values as jq does: by type, then by value; objects by their keys, then values."""
    kind = type_name(value)
    rank = _RANKS[kind]
    if kind == "boolean":
        return (rank + int(value), 0)
    if kind == "number":
        return (rank, -math.inf if isinstance(value, float) and math.isnan(value) else value)
    if kind == "array":
        return (rank, [order_key(each) for each in value])
    if kind == "object":
        keys = sorted(value)
        return (rank, keys, [order_key(value[key]) for key in keys])
    return (rank, value if kind == "string" else 0)


def entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield keys and values in the order in which gojq iterates: of an object sorted by key. Raises JqError."""
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield key, value[key]
    else:
        raise JqError(f"cannot iterate over: {told(value)}")


# -- paths ---------------------------------------------------------------------------------------


def index(value: Any, key: Any) -> Any:
    """Return what stands at a key, an index or a slice; null where nothing does. Raises JqError."""
    if isinstance(key, str):
        if value is None:
            return None
        if isinstance(value, dict):
            return value.get(key)
        raise JqError(f"expected an object but got: {told(value)}")
    if is_number(key):
        if value is None:
            return None
        if isinstance(value, list):
            at = _position(key, len(value))
            return value[at] if 0 <= at < len(value) else None
        raise JqError(f"expected an array but got: {told(value)}")
    if isinstance(key, dict):
        if value is None:
            return None
        if not isinstance(value, (str, list)):
            raise JqError(f"expected an array but got: {told(value)}")
        start, end = _bounds(key, len(value))
        return value[start:end]
    if isinstance(key, list) and (value is None or isinstance(value, list)):
        return indices(value, key)
    raise JqError(f"cannot index {told(value)} with {told(key)}")


def _position(key: float, size: int) -> int:
    if math.isnan(key):
        return -1
    at = math.floor(max(min(key, 1 << 53), -(1 << 53)))
    return at + size if at < 0 else at


def _bounds(key: Mapping[str, Any], size: int) -> tuple[int, int]:
    found = []
    for name, missing, rounded in (("start", 0, math.floor), ("end", size, math.ceil)):
        at = key.get(name)
        if at is None:
            found.append(missing)
        elif not is_number(at) or math.isnan(at):
            raise JqError(f"expected a number for slice but got: {told(at)}")
        else:
            whole = rounded(max(min(at, 1 << 53), -(1 << 53)))
            found.append(max(0, min(size, whole + size if whole < 0 else whole)))
    return found[0], max(found)


def indices(value: Any, part: Any) -> Any:
    """Return where a part stands in an array or a string, from 0."""
    if value is None:
        return None
    if isinstance(value, str) and isinstance(part, str):
        if not part:
            return None
        return [at for at in range(len(value) - len(part) + 1) if value.startswith(part, at)]
    if isinstance(value, list) and isinstance(part, list):
        if not part:
            return None
        size = len(part)
        return [at for at in range(len(value) - size + 1) if same(value[at : at + size], part)]
    if isinstance(value, list):
        return [at for at, each in enumerate(value) if same(each, part)]
    raise JqError(f"cannot find {told(part)} in {told(value)}")


def get_path(value: Any, way: Sequence[Any]) -> Any:
    """Return what stands at a path."""
    for key in way:
        if value is None:
            return None
        value = index(value, key)
    return value


def set_path(value: Any, way: Sequence[Any], made: Any) -> Any:
    """Return a copy with a value at a path; what is missing on the way is made. Raises JqError."""
    if not way:
        return made
    key, rest = way[0], way[1:]
    old = index(value, key)
    if isinstance(key, str):
        return {**(value or {}), key: set_path(old, rest, made)}
    if isinstance(key, dict):
        part = set_path(old, rest, made)
        if not isinstance(part, list):
            raise JqError(f"expected an array but got: {told(part)}")
        whole = value or []
        start, end = _bounds(key, len(whole))
        return [*whole[:start], *part, *whole[end:]]
    if not is_number(key):
        raise JqError(f"cannot set a value at {told(key)}")
    whole = list(value or [])
    at = _position(key, len(whole))
    if at < 0:
        raise JqError("array negative index out of bounds")
    if at >= LONGEST:
        raise JqError("array index too large")
    whole += [None] * (at + 1 - len(whole))
    whole[at] = set_path(old, rest, made)
    return whole


def delete_paths(value: Any, ways: Sequence[Sequence[Any]]) -> Any:
    """Return a copy without what stands at the paths. Raises JqError."""
    for way in sorted(ways, key=order_key, reverse=True):
        value = _without(value, way)
    return value


def _without(value: Any, way: Sequence[Any]) -> Any:
    if not way:
        return None
    key, rest = way[0], way[1:]
    if value is None:
        return None
    old = index(value, key)
    if rest:
        return value if old is None else set_path(value, (key,), _without(old, rest))
    if isinstance(key, str):
        return {name: each for name, each in value.items() if name != key}
    if isinstance(key, dict):
        start, end = _bounds(key, len(value))
        return [*value[:start], *value[end:]]
    at = _position(key, len(value))
    return [each for number, each in enumerate(value) if number != at]


# -- operators -----------------------------------------------------------------------------------


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; true is not 1."""
    return bool(order_key(left) == order_key(right))


def contains(value: Any, part: Any) -> bool:
    """Return whether a value has a part, at any depth. Raises JqError for two types."""
    if type_name(value) != type_name(part):
        raise JqError(f"cannot check containment of {told(part)} in {told(value)}")
    if isinstance(value, dict):
        return all(
            key in value and type_name(value[key]) == type_name(each) and contains(value[key], each)
            for key, each in part.items()
        )
    if isinstance(value, list):
        return all(
            any(type_name(own) == type_name(each) and contains(own, each) for own in value)
            for each in part
        )
    if isinstance(value, str):
        return part in value
    return same(value, part)


def _fail(left: Any, right: Any, word: str) -> JqError:
    return JqError(f"cannot {word}: {told(left)} and {told(right)}")


def _sized(made: Any) -> Any:
    if isinstance(made, (str, list)) and len(made) > LONGEST:
        raise JqError("the result is too large")
    if isinstance(made, int) and not isinstance(made, bool) and abs(made) >= 1 << 1024:
        raise JqError("the number is too large")
    return made


def _add(left: Any, right: Any) -> Any:
    if left is None:
        return right
    if right is None:
        return left
    if is_number(left) and is_number(right):
        return _sized(left + right)
    kind = type_name(left)
    if kind != type_name(right) or kind == "boolean":
        raise _fail(left, right, "add")
    return {**left, **right} if kind == "object" else _sized(left + right)


def _subtract(left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _sized(left - right)
    if isinstance(left, list) and isinstance(right, list):
        return [each for each in left if not any(same(each, other) for other in right)]
    raise _fail(left, right, "subtract")


def _multiply(left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        return _sized(left * right)
    if isinstance(left, str) and is_number(right):
        return _repeated(left, right)
    if isinstance(right, str) and is_number(left):
        return _repeated(right, left)
    if isinstance(left, dict) and isinstance(right, dict):
        return _merged(left, right)
    raise _fail(left, right, "multiply")


def _repeated(text: str, times: float) -> str | None:
    if times <= 0 or math.isnan(times):
        return None
    if len(text) * times > LONGEST:
        raise JqError("the result is too large")
    return text * max(1, int(times))


def _merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    made = dict(left)
    for key, each in right.items():
        old = made.get(key)
        made[key] = _merged(old, each) if isinstance(old, dict) and isinstance(each, dict) else each
    return made


def _divide(left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right):
        if right == 0:
            raise _fail(left, right, "divide by zero")
        if isinstance(left, int) and isinstance(right, int) and left % right == 0:
            return left // right
        return left / right
    if isinstance(left, str) and isinstance(right, str):
        return split(left, right)
    raise _fail(left, right, "divide")


def split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between the separators; its characters where that is empty."""
    if not text:
        return []
    return list(text) if not separator else text.split(separator)


def _modulo(left: Any, right: Any) -> Any:
    if not is_number(left) or not is_number(right):
        raise _fail(left, right, "modulo")
    if math.isnan(left) or math.isnan(right):
        return math.nan
    first, second = int(max(min(left, 2**63), -(2**63))), int(max(min(right, 2**63), -(2**63)))
    if second == 0:
        raise _fail(left, right, "modulo by zero")
    return int(math.copysign(abs(first) % abs(second), first)) if first else 0


BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
    "==": same,
    "!=": lambda left, right: not same(left, right),
    "<": lambda left, right: order_key(left) < order_key(right),
    "<=": lambda left, right: order_key(left) <= order_key(right),
    ">": lambda left, right: order_key(left) > order_key(right),
    ">=": lambda left, right: order_key(left) >= order_key(right),
}
