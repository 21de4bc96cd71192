"""The field of a refusal whose text alone names it, as with Go's decoders."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.tree import Tree

__all__ = ["field_of"]

_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')
_DECODING: Final = re.compile(r"cannot unmarshal (\w+)(?: \S+)? into Go struct field \w+\.(\S+) of")
_AMOUNT: Final = re.compile(r"[+-]?[0-9.]++[eEinumkKMGTP]*+[-+]?[0-9]*")
_AMOUNTS: Final = (
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "hard",
    "overhead",
    "podFixed",
    "default",
    "defaultRequest",
    "max",
    "min",
)
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "bool": (bool,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}
_WORDS: Final = (
    ("no PriorityClass with name", "spec.priorityClassName"),
    ("pod rejected: RuntimeClass", "spec.runtimeClassName"),
    ("namespaces ", "metadata.namespace"),
)


def field_of(message: str, tree: Tree) -> str:
    """Path of the field that the message of a refusal is about; "" if it is unknown."""
    unknown = _UNKNOWN.search(message)
    if unknown is not None:
        return unknown[1]
    decoding = _DECODING.search(message)
    if decoding is not None:
        return _of_kind(tree, decoding[2].split("."), decoding[1])
    if message.startswith("quantities must match") or "quantities must match" in message:
        return next(_where(tree, _is_no_amount), "")
    if "illegal base64 data" in message:
        return next(_where(tree, _is_no_base64), "")
    return next((field for words, field in _WORDS if words in message), "")


def _of_kind(tree: Any, path: list[str], kind: str) -> str:
    """The first value of a JSON kind at a path that leaves out list indices and keys of maps."""
    wanted = _KINDS.get(kind, ())

    def fits(value: Any) -> bool:
        return isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))

    def search(value: Any, left: list[str]) -> Iterator[str]:
        if isinstance(value, list) and (left or not fits(value)):
            for number, item in enumerate(value):
                for rest in search(item, left):
                    yield f"[{number}]{rest}"
        elif left:
            if isinstance(value, dict):
                if left[0] in value:
                    for rest in search(value[left[0]], left[1:]):
                        yield f".{left[0]}{rest}"
            elif fits(value):
                yield ""
        elif fits(value):
            yield ""
        elif isinstance(value, dict):
            for key, item in value.items():
                if fits(item):
                    yield f".{key}"

    return next(search(tree, path), "").removeprefix(".")


def _where(tree: Any, bad: Callable[[str, Any], bool], path: str = "") -> Iterator[str]:
    """Paths of the values of maps that are wrong for the map's name."""
    if isinstance(tree, list):
        for number, item in enumerate(tree):
            yield from _where(item, bad, f"{path}[{number}]")
    elif isinstance(tree, dict):
        inside = path.rpartition(".")[2]
        for key, value in tree.items():
            at = f"{path}.{key}" if path else key
            if bad(inside, value):
                yield at
            yield from _where(value, bad, at)


def _is_no_amount(inside: str, value: Any) -> bool:
    return inside in _AMOUNTS and isinstance(value, str) and not _AMOUNT.fullmatch(value)


def _is_no_base64(inside: str, value: Any) -> bool:
    if inside not in ("data", "binaryData") or not isinstance(value, str):
        return False
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return True
    return False
