"""The pod template hash in names of replica sets: FNV-1a 32 over a dump of the Go value, as a safe string.

Upstream: controller.ComputeHash, pkg/util/hash, which print the template with spew's `%#v`: every
field with its type, in the order of the struct, maps sorted by key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from controlplane.api.fnv import fnv1a_32
from controlplane.controllers.common.go_types import structs

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_QUANTITY = re.compile(r"([+-]?)([0-9]*+)\.?([0-9]*+)(.*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_INT64_DIGITS = 18
_BINARY_DIGITS = 15
_WORD = 1 << 64
_NANO = -9


def safe_encode(text: str) -> str:
    """Replace each character so that the string spells no word. Upstream: apimachinery util/rand SafeEncodeString."""
    return "".join(ALPHABET[ord(char) % len(ALPHABET)] for char in text)


def template_hash(template: dict[str, Any], collision_count: int | None) -> str:
    """The hash of a pod template; a collision count makes another one."""
    data = dump("v1.PodTemplateSpec", template).encode("utf-8", "surrogatepass")
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))


def dump(kind: str, value: Any, *, typed: bool = True) -> str:
    """A JSON value as spew shows the Go value of type `kind`; None stands for the zero value."""
    if kind.startswith("*"):
        if value is None:
            return f"({kind})<nil>"
        return f"({kind})" + dump(kind[1:], value, typed=False)
    return (f"({kind})" if typed else "") + _untyped(kind, value)


def _untyped(kind: str, value: Any) -> str:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(value)
    if kind.startswith("[]"):
        if not value:
            return "<nil>"
        return "[" + " ".join(dump(kind[2:], each, typed=False) for each in value) + "]"
    if kind.startswith("map["):
        return _map("string", value)
    fields = structs().get(kind.rpartition(".")[2]) if "." in kind else None
    if fields is None:
        return value or "" if isinstance(value, str | None) else str(value)
    tree = value or {}
    shown = (
        f"{name}:{dump(type_, tree.get(json) if json else tree)}" for name, type_, json in fields
    )
    return "{" + " ".join(shown) + "}"


def _map(kind: str, value: dict[str, Any] | None) -> str:
    if not value:
        return "<nil>"
    keys = sorted(value, key=lambda key: key.encode())
    return "map[" + " ".join(f"{key}:{dump(kind, value[key], typed=False)}" for key in keys) + "]"


def _int_or_string(value: int | str | None) -> str:
    if isinstance(value, str):
        return f"{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string){value}}}"
    return f"{{Type:(intstr.Type)0 IntVal:(int32){value or 0} StrVal:(string)}}"


def _time(_value: str | None) -> str:
    """The zero time: a template has no times of its own."""
    return "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"


def _quantity(value: Any) -> str:
    """A parsed quantity. One whose text is canonical beyond doubt keeps its text."""
    if value is None:
        return _shown_quantity(0, 0, "", "")
    text = str(value)
    if text == "0":
        return _shown_quantity(0, 0, "0", "DecimalSI")
    match = _QUANTITY.fullmatch(text)
    assert match is not None, text
    sign, whole, part, suffix = match.groups()
    whole = whole.lstrip("0") or "0"
    digits = int(whole + part)
    if suffix in _BINARY:
        bits = _BINARY[suffix]
        form, scale, factor = "BinarySI", 0, 1 << bits
        room = -1 if part else _BINARY_DIGITS - len(whole) - bits * 3 // 10 - 1
        canonical = digits & 7 != 0
    else:
        exponent = len(suffix) > 1
        form = "DecimalExponent" if exponent else "DecimalSI"
        scale = (int(suffix[1:]) if exponent else _DECIMAL[suffix]) - len(part)
        room, factor = _INT64_DIGITS - len(whole) - len(part), 1
        canonical = scale % 3 == 0 and not (whole + part).endswith("000") and whole != "0"
    number = digits * factor * (-1 if sign == "-" else 1)
    if room >= 0 and scale >= _NANO and abs(number) < 1 << 63:
        return _shown_quantity(number, scale, text if canonical else "", form)
    return _shown_quantity(0, 0, "", form, _big_decimal(number, -scale))


def _shown_quantity(
    number: int, scale: int, text: str, form: str, decimal: str = "(*inf.Dec)<nil>"
) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}} "
        f"d:(resource.infDecAmount){{Dec:{decimal}}} s:(string){text} Format:(resource.Format){form}}}"
    )


def _big_decimal(number: int, scale: int) -> str:
    words = []
    rest = abs(number)
    while rest:
        rest, word = divmod(rest, _WORD)
        words.append(str(word))
    shown = f"[{' '.join(words)}]" if words else "<nil>"
    sign = "true" if number < 0 else "false"
    return f"(*inf.Dec){{unscaled:(big.Int){{neg:(bool){sign} abs:(big.nat){shown}}} scale:(inf.Scale){scale}}}"


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "bool": lambda value: "true" if value else "false",
    "int32": lambda value: str(value or 0),
    "int64": lambda value: str(value or 0),
    "v1.ResourceList": lambda value: _map("resource.Quantity", value),
    "resource.Quantity": _quantity,
    "intstr.IntOrString": _int_or_string,
    "v1.Time": _time,
}
