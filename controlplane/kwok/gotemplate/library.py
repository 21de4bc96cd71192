"""Functions of templates: Go's own, and sprig's by their names and argument orders.

Left out of sprig: what reads the machine (`env`, `getHostByName`), keys and certificates, `semver`, URLs. Random
functions and the time come from the caller.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

from controlplane.api.go_integers import divide
from controlplane.apiserver.schema import go_regexp
from controlplane.kwok.gotemplate.printing import (
    formatted,
    go_type,
    plain,
    shown,
    truth,
)

__all__ = ["FUNCTIONS", "to_int"]

LONGEST: Final = 1 << 20
"""The most elements or characters that a function makes."""


def to_int(value: Any) -> int:
    """Return a value as a whole number, 0 where it is none (spf13/cast)."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return int(value) if math.isfinite(value) else 0
    if isinstance(value, str):
        try:
            return int(value.lstrip("0") or "0") if value[:1] == "0" else int(value)
        except ValueError:
            return 0
    return 0


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def _text(value: Any) -> str:
    """Return a value as sprig's `strval` does."""
    return shown(value, True) if value is not None else ""


def _string(value: Any) -> str:
    """Return a value where a function takes a string. Raises TypeError."""
    if not isinstance(value, str):
        if value is None:
            raise TypeError("invalid value; expected string")
        raise TypeError(f"wrong type for value; expected string; got {go_type(value)}")
    return str(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"Cannot find a list in type {go_type(value)}")
    return value


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(
            f"wrong type for value; expected map[string]interface {{}}; got {go_type(value)}"
        )
    return dict(value)


# -- Go's own --------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "none" if value is None else "other"


def _equal(first: Any, *others: Any) -> bool:
    if not others:
        raise TypeError("missing argument for comparison")
    found = False
    for other in others:
        kinds = _kind(first), _kind(other)
        if "other" in kinds:
            raise TypeError("non-comparable type")
        if kinds[0] != kinds[1] and "none" not in kinds:
            raise TypeError("incompatible types for comparison")
        found = found or (kinds[0] == kinds[1] and first == other)
    return found


def _less(first: Any, second: Any) -> bool:
    kinds = _kind(first), _kind(second)
    if kinds[0] != kinds[1]:
        raise TypeError("incompatible types for comparison")
    if kinds[0] in ("bool", "other", "none"):
        raise TypeError("invalid type for comparison")
    return bool(first < second)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is None:
            raise TypeError("index of untyped nil")
        if isinstance(value, Mapping):
            value = value.get(_string(key))
        elif isinstance(value, (list, str)):
            if isinstance(key, bool) or not isinstance(key, int):
                raise TypeError(f"cannot index slice/array with type {go_type(key)}")
            if not 0 <= key < len(value):
                raise IndexError(f"reflect: slice index out of range: {key}")
            value = ord(value[key]) if isinstance(value, str) else value[key]
        else:
            raise TypeError(f"can't index item of type {go_type(value)}")
    return value


def _slice(value: Any, *bounds: int) -> Any:
    start = bounds[0] if bounds else 0
    end = bounds[1] if len(bounds) > 1 else len(value)
    if not 0 <= start <= end <= len(value):
        raise IndexError("index out of range")
    return value[start:end]


def _len(value: Any) -> int:
    if value is None:
        raise TypeError("len of nil pointer")
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, (list, Mapping)):
        return len(value)
    raise TypeError(f"len of type {go_type(value)}")


def _print(*args: Any) -> str:
    made = ""
    for at, each in enumerate(args):
        if at and not isinstance(each, str) and not isinstance(args[at - 1], str):
            made += " "
        made += shown(each, True)
    return made


# -- sprig: strings --------------------------------------------------------------------------------


def _regexp(pattern: Any) -> go_regexp.Pattern:
    return go_regexp.compiled(_string(pattern))


def _found_all(pattern: Any, text: Any, most: Any) -> list[str]:
    found = list(_regexp(pattern).each(_string(text)))
    return found if most < 0 else found[:most]


def _replaced(pattern: Any, value: Any, replacement: Any, literal: bool = False) -> str:
    text, made = _string(value), _string(replacement)
    out, at = "", 0
    for spans in _regexp(pattern).spans(text):
        (_, start, end), *_groups = spans
        groups = {str(number): (first, last) for number, (_, first, last) in enumerate(spans)}
        groups |= {name: (first, last) for name, first, last in spans if name}
        out += text[at:start] + (made if literal else _expanded(made, text, groups))
        at = end
    return out + text[at:]


def _expanded(made: str, text: str, groups: Mapping[str, tuple[int, int]]) -> str:
    def part(found: re.Match[str]) -> str:
        name = found.group(1) or found.group(2)
        if name is None:
            return "$"
        start, end = groups.get(name, (-1, -1))
        return text[start:end] if start >= 0 else ""

    return re.sub(r"\$(?:\{(\w+)\}|(\w+)|\$)", part, made)


def _split_regexp(pattern: Any, text: Any, most: Any) -> list[str]:
    text = _string(text)
    found: list[str] = []
    at = 0
    for spans in _regexp(pattern).spans(text):
        _, start, end = spans[0]
        if 0 < most == len(found) + 1:
            break
        if end == 0:
            continue
        found.append(text[at:start])
        at = end
    return [*found, text[at:]]


def _words(text: str) -> list[str]:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return re.split(r"[\s_\-.]+", text.strip())


def _truncated(count: Any, value: Any) -> str:
    text, most = _string(value), to_int(count)
    if most < 0:
        return text[most:] if len(text) + most > 0 else text
    return text[:most]


def _abbreviated(count: Any, value: Any) -> str:
    text, most = _string(value), to_int(count)
    return text if most < 4 or len(text) <= most else text[: most - 3] + "..."


def _substring(start: Any, end: Any, value: Any) -> str:
    text = _string(value)
    if start < 0:
        return text[:end]
    return text[start:] if end < 0 or end > len(text) else text[start:end]


def _repeated(count: Any, text: Any) -> str:
    if len(_string(text)) * to_int(count) > LONGEST:
        raise ValueError("the result is too large")
    return _string(text) * max(0, to_int(count))


def _quoted(*args: Any) -> str:
    return " ".join(
        json.dumps(_text(each), ensure_ascii=False) for each in args if each is not None
    )


def _indented(spaces: Any, text: Any) -> str:
    pad = " " * min(to_int(spaces), 1000)
    return pad + _string(text).replace("\n", "\n" + pad)


def _joined(separator: Any, value: Any) -> str:
    parts = value if isinstance(value, list) else [] if value is None else [value]
    return _string(separator).join(_text(each) for each in parts if each is not None)


def _decoded(text: Any) -> str:
    try:
        return base64.b64decode(_string(text), validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        return f"illegal base64 data: {error}"


def _digest(name: str) -> Callable[[Any], str]:
    return lambda text: hashlib.new(name, _string(text).encode(), usedforsecurity=False).hexdigest()


# -- sprig: numbers --------------------------------------------------------------------------------


def _quotient(first: Any, second: Any) -> int:
    left, right = to_int(first), to_int(second)
    if not right:
        raise ZeroDivisionError("runtime error: integer divide by zero")
    return divide(left, right)


def _remainder(first: Any, second: Any) -> int:
    return to_int(first) - _quotient(first, second) * to_int(second)


def _product(*args: Any) -> int:
    made = 1
    for each in args:
        made *= to_int(each)
    return made


def _rounded(value: Any, places: Any, half: float = 0.5) -> float:
    power = 10.0 ** to_int(places)
    digit = power * _float(value)
    whole = math.ceil(digit) if digit - math.floor(digit) >= half else math.floor(digit)
    return whole / power


def _until(start: Any, stop: Any, step: Any) -> list[int]:
    if (stop - start) * step <= 0:
        return []
    made = range(start, stop, step)
    if len(made) > LONGEST:
        raise ValueError("the result is too large")
    return list(made)


# -- sprig: maps and lists -------------------------------------------------------------------------


def _made_dict(*pairs: Any) -> dict[str, Any]:
    padded = [*pairs, ""] if len(pairs) % 2 else pairs
    return {_text(padded[at]): padded[at + 1] for at in range(0, len(padded), 2)}


def _set(target: Any, key: Any, value: Any) -> Any:
    if isinstance(target, dict):
        target[_string(key)] = value
    return target


def _unset(target: Any, key: Any) -> Any:
    if isinstance(target, dict):
        target.pop(key, None)
    return target


def _merged(overwrite: bool) -> Callable[..., Any]:
    def merge(target: Any, *sources: Any) -> Any:
        for source in sources:
            for key, value in _dict(source).items():
                old = target.get(key)
                if isinstance(old, dict) and isinstance(value, Mapping):
                    merge(old, value)
                elif truth(value) if overwrite else not truth(old):
                    target[key] = value
        return target

    return merge


def _dug(*args: Any) -> Any:
    *keys, default, value = args
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


def _keys(*maps: Any) -> list[str]:
    return [key for each in maps for key in sorted(each)]


def _without(value: Any, *gone: Any) -> list[Any]:
    return [each for each in _list(value) if each not in gone]


def _unique(value: Any) -> list[Any]:
    made: list[Any] = []
    for each in _list(value):
        if each not in made:
            made.append(each)
    return made


def _chunks(size: Any, value: Any) -> list[list[Any]]:
    size = max(1, to_int(size))
    return [value[at : at + size] for at in range(0, len(_list(value)), size)]


def _coalesced(*args: Any) -> Any:
    return next((each for each in args if truth(each)), None)


def _failed(text: Any) -> Any:
    raise ValueError(text)


def _json(value: Any, **how: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False, sort_keys=True, **how)


def _escaped(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _from_json(text: Any) -> Any:
    try:
        return json.loads(_string(text), parse_int=float)
    except ValueError:
        return None


_COMPACT: Final = {"separators": (",", ":")}

FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    # Go
    "not": lambda value: not truth(value),
    "len": _len,
    "index": _index,
    "slice": _slice,
    "print": _print,
    "println": lambda *args: " ".join(shown(each, True) for each in args) + "\n",
    "printf": lambda form, *args: formatted(_string(form), list(args)),
    "html": lambda *args: html.escape(_print(*args)).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "urlquery": lambda *args: quote_plus(_print(*args)),
    "eq": _equal,
    "ne": lambda first, second: not _equal(first, second),
    "lt": _less,
    "le": lambda first, second: not _less(second, first),
    "gt": lambda first, second: _less(second, first),
    "ge": lambda first, second: not _less(first, second),
    # Strings
    "trim": lambda text: _string(text).strip(),
    "trimAll": lambda cut, text: _string(text).strip(cut),
    "trimall": lambda cut, text: _string(text).strip(cut),
    "trimPrefix": lambda part, text: _string(text).removeprefix(part),
    "trimSuffix": lambda part, text: _string(text).removesuffix(part),
    "upper": lambda text: _string(text).upper(),
    "lower": lambda text: _string(text).lower(),
    "title": lambda text: re.sub(r"(?<!\S)\w", lambda found: found.group().upper(), _string(text)),
    "untitle": lambda text: re.sub(r"(?<!\S)\w", lambda found: found.group().lower(), _string(text)),
    "repeat": _repeated,
    "substr": _substring,
    "nospace": lambda text: re.sub(r"\s", "", _string(text)),
    "trunc": _truncated,
    "abbrev": _abbreviated,
    "initials": lambda text: "".join(word[:1] for word in _string(text).split()),
    "contains": lambda part, text: part in _string(text),
    "hasPrefix": lambda part, text: _string(text).startswith(part),
    "hasSuffix": lambda part, text: _string(text).endswith(part),
    "quote": _quoted,
    "squote": lambda *args: " ".join(f"'{_text(each)}'" for each in args if each is not None),
    "cat": lambda *args: " ".join(_text(each) for each in args if each is not None),
    "indent": _indented,
    "nindent": lambda spaces, text: "\n" + _indented(spaces, text),
    "replace": lambda old, new, text: _string(text).replace(old, new),
    "plural": lambda one, many, count: one if count == 1 else many,
    "snakecase": lambda text: "_".join(_words(_string(text))).lower(),
    "kebabcase": lambda text: "-".join(_words(_string(text))).lower(),
    "camelcase": lambda text: "".join(word[:1].upper() + word[1:] for word in _words(_string(text))),
    "toString": _text,
    "toStrings": lambda value: [_text(each) for each in _list(value)],
    "join": _joined,
    "split": lambda cut, text: {f"_{at}": part for at, part in enumerate(_string(text).split(cut))},
    "splitn": lambda cut, most, text: {
        f"_{at}": part for at, part in enumerate(_string(text).split(cut, most - 1))
    },
    "splitList": lambda cut, text: _string(text).split(cut) if cut else list(_string(text)),
    "sortAlpha": lambda value: sorted(_text(each) for each in _list(value)),
    "regexMatch": lambda pattern, text: _regexp(pattern).found(_string(text)),
    "regexFind": lambda pattern, text: _regexp(pattern).search(_string(text)) or "",
    "regexFindAll": _found_all,
    "regexReplaceAll": _replaced,
    "regexReplaceAllLiteral": lambda pattern, text, made: _replaced(pattern, text, made, True),
    "regexSplit": _split_regexp,
    "regexQuoteMeta": lambda text: re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", _string(text)),
    "b64enc": lambda text: base64.b64encode(_string(text).encode()).decode(),
    "b64dec": _decoded,
    "b32enc": lambda text: base64.b32encode(_string(text).encode()).decode(),
    "sha1sum": _digest("sha1"),
    "sha256sum": _digest("sha256"),
    "sha512sum": _digest("sha512"),
    "adler32sum": lambda text: str(zlib.adler32(_string(text).encode())),
    "base": lambda text: _string(text).rstrip("/").rpartition("/")[2] or ("/" if text else "."),
    "dir": lambda text: _string(text).rpartition("/")[0] or ("/" if text[:1] == "/" else "."),
    "ext": lambda text: (re.search(r"\.[^./]*$", _string(text)) or [""])[0],
    # Numbers
    "atoi": to_int,
    "int": to_int,
    "int64": to_int,
    "float64": _float,
    "toDecimal": lambda text: int(_string(text), 8),
    "add": lambda *args: sum(map(to_int, args)),
    "add1": lambda value: to_int(value) + 1,
    "sub": lambda first, second: to_int(first) - to_int(second),
    "mul": _product,
    "div": _quotient,
    "mod": _remainder,
    "addf": lambda *args: sum(map(_float, args)),
    "add1f": lambda value: _float(value) + 1,
    "subf": lambda first, *rest: _float(first) - sum(map(_float, rest)),
    "mulf": lambda *args: math.prod(map(_float, args)),
    "divf": lambda first, second: _float(first) / _float(second),
    "max": lambda *args: max(map(to_int, args)),
    "biggest": lambda *args: max(map(to_int, args)),
    "min": lambda *args: min(map(to_int, args)),
    "maxf": lambda *args: max(map(_float, args)),
    "minf": lambda *args: min(map(_float, args)),
    "ceil": lambda value: float(math.ceil(_float(value))),
    "floor": lambda value: float(math.floor(_float(value))),
    "round": _rounded,
    "until": lambda count: _until(0, count, 1 if count > 0 else -1),
    "untilStep": _until,
    # Maps and lists
    "dict": _made_dict,
    "get": lambda value, key: _dict(value).get(key, ""),
    "set": _set,
    "unset": _unset,
    "hasKey": lambda value, key: key in _dict(value),
    "pluck": lambda key, *maps: [each[key] for each in maps if key in each],
    "keys": _keys,
    "values": lambda value: [value[key] for key in sorted(_dict(value))],
    "pick": lambda value, *keys: {key: value[key] for key in keys if key in value},
    "omit": lambda value, *keys: {key: each for key, each in value.items() if key not in keys},
    "merge": _merged(False),
    "mergeOverwrite": _merged(True),
    "deepCopy": lambda value: json.loads(json.dumps(value)) if value is not None else None,
    "dig": _dug,
    "list": lambda *args: list(args),
    "tuple": lambda *args: list(args),
    "first": lambda value: _list(value)[0] if value else None,
    "last": lambda value: _list(value)[-1] if value else None,
    "rest": lambda value: _list(value)[1:],
    "initial": lambda value: _list(value)[:-1],
    "append": lambda value, each: [*_list(value), each],
    "push": lambda value, each: [*_list(value), each],
    "prepend": lambda value, each: [each, *_list(value)],
    "concat": lambda *lists: [each for value in lists for each in _list(value)],
    "reverse": lambda value: _list(value)[::-1],
    "uniq": _unique,
    "without": _without,
    "has": lambda each, value: value is not None and each in _list(value),
    "compact": lambda value: [each for each in _list(value) if truth(each)],
    "chunk": _chunks,
    # Choice
    "default": lambda default, value=None: value if truth(value) else default,
    "empty": lambda value: not truth(value),
    "coalesce": _coalesced,
    "ternary": lambda yes, no, chosen: yes if chosen else no,
    "all": lambda *args: all(map(truth, args)),
    "any": lambda *args: any(map(truth, args)),
    "fail": _failed,
    # JSON and types
    "toJson": lambda value: _escaped(_json(value, **_COMPACT)),
    "toRawJson": lambda value: _json(value, **_COMPACT),
    "toPrettyJson": lambda value: _escaped(_json(value, indent=2)),
    "fromJson": _from_json,
    "typeOf": go_type,
    "kindOf": lambda value: go_type(value).partition("[")[0].replace("json.Number", "string") or "slice",
    "kindIs": lambda name, value: name == (go_type(value).partition("[")[0] or "slice"),
    "typeIs": lambda name, value: name == go_type(value),
    "deepEqual": lambda first, second: plain(first) == plain(second),
}  # fmt: skip
