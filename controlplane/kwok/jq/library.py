"""The functions of jq: those in Python by name and number of arguments, and those that are written in jq."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from controlplane.api.go_math import go_exp, go_log, go_log2, go_log10
from controlplane.kwok.jq import operators, texts
from controlplane.kwok.jq.operators import JqError, is_number, order_key, told, truth

__all__ = ["KEYED", "SIMPLE", "WRITTEN"]

_Pairs = Sequence[tuple[Any, Any]]
_KEY: Final = itemgetter(0)


def _grouped(pairs: _Pairs) -> list[list[Any]]:
    ordered = sorted(pairs, key=_KEY)
    return [[each for _, each in group] for _, group in groupby(ordered, key=_KEY)]


KEYED: Final[Mapping[str, Callable[[_Pairs], Any]]] = {
    "sort/0": lambda pairs: [each for _, each in sorted(pairs, key=_KEY)],
    "sort_by/1": lambda pairs: [each for _, each in sorted(pairs, key=_KEY)],
    "group_by/1": _grouped,
    "unique/0": lambda pairs: [group[0] for group in _grouped(pairs)],
    "unique_by/1": lambda pairs: [group[0] for group in _grouped(pairs)],
    "min/0": lambda pairs: min(pairs, key=_KEY)[1] if pairs else None,
    "min_by/1": lambda pairs: min(pairs, key=_KEY)[1] if pairs else None,
    "max/0": lambda pairs: max(reversed(pairs), key=_KEY)[1] if pairs else None,
    "max_by/1": lambda pairs: max(reversed(pairs), key=_KEY)[1] if pairs else None,
}
"""Functions over an array, whose elements come with a key to order them by."""


def _length(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        raise JqError(f"length cannot be applied to: {told(value)}")
    return abs(value) if is_number(value) else len(value)


def _keys(value: Any) -> list[Any]:
    return [key for key, _ in operators.entries(value)]


def _has(value: Any, key: Any) -> bool:
    if isinstance(value, dict) and isinstance(key, str):
        return key in value
    if isinstance(value, list) and is_number(key):
        return bool(0 <= key < len(value))
    raise JqError(f"cannot check whether {told(value)} has {told(key)}")


def _added(value: Any) -> Any:
    made = None
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(parts, list) and parts and all(isinstance(each, str) for each in parts):
        return "".join(parts)
    for each in _iterable(parts, value):
        made = operators.BINARY["+"](made, each)
    return made


def _iterable(parts: Any, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int, float)):
        raise JqError(f"cannot iterate over: {told(value)}")
    return parts


def _flattened(value: Any, levels: Any = math.inf) -> list[Any]:
    if not is_number(levels) or levels < 0:
        raise JqError("flatten depth must not be negative")
    made: list[Any] = []
    for each in value.values() if isinstance(value, dict) else _array(value):
        made += _flattened(each, levels - 1) if isinstance(each, list) and levels >= 1 else [each]
    return made


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise JqError(f"expected an array but got: {told(value)}")
    return value


def _number(value: Any) -> Any:
    if is_number(value):
        return value
    if isinstance(value, str):
        try:
            made = json.loads(value, parse_constant=lambda _: None)
        except ValueError:
            made = None
        if is_number(made):
            return made
    raise JqError(f"cannot parse as a number: {told(value)}")


def _reversed(value: Any) -> Any:
    if value is None:
        return []
    if isinstance(value, str):
        return value[::-1]
    return _array(value)[::-1]


def _transposed(value: Any) -> list[Any]:
    rows = _array(value)
    width = max((len(_array(row)) for row in rows), default=0)
    return [[row[at] if at < len(row) else None for row in rows] for at in range(width)]


def _from_json(value: Any) -> Any:
    try:
        return json.loads(texts.text(value))
    except ValueError as error:
        raise JqError(f"{value} cannot be parsed as JSON: {error}") from None
    except RecursionError:
        raise JqError("too many levels") from None


def _rounded(apply: Callable[[float], float]) -> Callable[[Any], Any]:
    def native(value: Any) -> Any:
        if not is_number(value):
            raise JqError(f"expected a number but got: {told(value)}")
        try:
            return (
                value if isinstance(value, int) or not math.isfinite(value) else float(apply(value))
            )
        except (ValueError, OverflowError):
            return math.nan

    return native


def _calculated(apply: Callable[..., float]) -> Callable[..., Any]:
    def native(value: Any, *args: Any) -> Any:
        numbers = args or (value,)
        for each in numbers:
            if not is_number(each):
                raise JqError(f"expected a number but got: {told(each)}")
        try:
            return float(apply(*map(float, numbers)))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return native


def _split_path(value: Any, ways: Any) -> Any:
    return operators.delete_paths(value, [_array(way) for way in _array(ways)])


def _entries_to_object(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for each in _array(value) if isinstance(value, list) else value.values():
        if not isinstance(each, dict):
            raise JqError(f"from_entries: expected an object but got: {told(each)}")
        key = next(
            (
                each[name]
                for name in ("key", "k", "name", "Name", "K", "Key")
                if truth(each.get(name))
            ),
            next(
                (each[name] for name in ("key", "k", "name", "Name", "K", "Key") if name in each),
                None,
            ),
        )
        if key is None or is_number(key) or isinstance(key, bool):
            key = "null" if key is None else operators.text_of(key)
        if not isinstance(key, str):
            raise JqError(f"expected a string for object key but got: {told(key)}")
        made[key] = next(
            (each[name] for name in ("value", "v", "Value", "V") if name in each), None
        )
    return made


SIMPLE: Final[Mapping[str, Callable[..., Any]]] = {
    "length/0": _length,
    "utf8bytelength/0": lambda value: len(texts.text(value).encode()),
    "not/0": lambda value: not truth(value),
    "keys/0": _keys,
    "keys_unsorted/0": _keys,
    "has/1": _has,
    "contains/1": operators.contains,
    "add/0": _added,
    "flatten/0": _flattened,
    "flatten/1": _flattened,
    "type/0": operators.type_name,
    "tonumber/0": _number,
    "tostring/0": lambda value: value if isinstance(value, str) else operators.text_of(value),
    "tojson/0": operators.text_of,
    "fromjson/0": _from_json,
    "reverse/0": _reversed,
    "transpose/0": _transposed,
    "indices/1": operators.indices,
    "setpath/2": lambda value, way, made: operators.set_path(value, _array(way), made),
    "delpaths/1": _split_path,
    "from_entries/0": _entries_to_object,
    "infinite/0": lambda _: math.inf,
    "nan/0": lambda _: math.nan,
    "isinfinite/0": lambda value: is_number(value) and math.isinf(value),
    "isnan/0": lambda value: is_number(value) and math.isnan(value),
    "isnormal/0": lambda value: is_number(value) and value != 0 and math.isfinite(value),
    "abs/0": _rounded(abs),
    "floor/0": _rounded(math.floor),
    "ceil/0": _rounded(math.ceil),
    "round/0": _rounded(lambda value: math.copysign(math.floor(abs(value) + 0.5), value)),
    "trunc/0": _rounded(math.trunc),
    "sqrt/0": _calculated(math.sqrt),
    "fabs/0": _calculated(abs),
    "exp/0": _calculated(go_exp),
    "exp2/0": _calculated(lambda value: 2.0**value),
    "exp10/0": _calculated(lambda value: 10.0**value),
    "log/0": _calculated(go_log),
    "log2/0": _calculated(go_log2),
    "log10/0": _calculated(go_log10),
    "sin/0": _calculated(math.sin),
    "cos/0": _calculated(math.cos),
    "tan/0": _calculated(math.tan),
    "pow/2": _calculated(math.pow),
    "atan2/2": _calculated(math.atan2),
    "fmin/2": _calculated(min),
    "fmax/2": _calculated(max),
    "env/0": lambda _: {},
    "builtins/0": lambda _: [],
    "input_filename/0": lambda _: None,
    "bsearch/1": lambda value, wanted: _searched(_array(value), wanted),
    **texts.FUNCTIONS,
}
"""Functions of the input and of their arguments' values."""


def _searched(value: list[Any], wanted: Any) -> int:
    from bisect import bisect_left

    keys = [order_key(each) for each in value]
    key = order_key(wanted)
    at = bisect_left(keys, key)
    return at if at < len(keys) and keys[at] == key else -1 - at


WRITTEN: Final = r"""
def select(f): if f then . else empty end;
def recurse: recurse(.[]?);
def recurse(f): def r: ., (f | r); r;
def recurse(f; cond): def r: ., (f | select(cond) | r); r;
def values: select(. != null);
def nulls: select(. == null);
def booleans: select(type == "boolean");
def numbers: select(type == "number");
def strings: select(type == "string");
def arrays: select(type == "array");
def objects: select(type == "object");
def iterables: select(type == "array" or type == "object");
def scalars: select(type != "array" and type != "object");
def finites: select(isinfinite or isnan | not);
def normals: select(isnormal);
def map(f): [.[] | f];
def map_values(f): .[] |= f;
def add(f): reduce f as $x (null; . + $x);
def to_entries: [keys[] as $k | {key: $k, value: .[$k]}];
def with_entries(f): to_entries | map(f) | from_entries;
def first: .[0];
def last: .[-1];
def last(f): reduce f as $x (null; $x);
def nth($n): .[$n];
def nth($n; f): if $n < 0 then error("nth doesn't support negative indices") else first(skip($n; f)) end;
def skip($n; f): if $n > 0 then foreach f as $x ($n; . - 1; if . < 0 then $x else empty end)
  elif $n == 0 then f else error("skip doesn't support negative count") end;
def isempty(f): label $out | (f | false, break $out), true;
def any: any(.[]; .);
def any(f): any(.[]; f);
def any(g; f): isempty(first(g | f | select(.))) | not;
def all: all(.[]; .);
def all(f): all(.[]; f);
def all(g; f): isempty(first(g | f | select(. | not)));
def in(xs): . as $x | xs | has($x);
def inside(xs): . as $x | xs | contains($x);
def index($x): indices($x) | .[0];
def rindex($x): indices($x) | .[-1:][0];
def until(cond; f): def u: if cond then . else f | u end; u;
def while(cond; f): def w: if cond then ., (f | w) else empty end; w;
def repeat(f): def r: ., (f | r); r;
def paths: path(..) | select(length > 0);
def paths(f): path(.. | select(f)) | select(length > 0);
def leaf_paths: paths(scalars);
def pick(f): . as $top | reduce path(f) as $p (null; setpath($p; $top | getpath($p)));
def walk(f): def w: if type == "object" then map_values(w) elif type == "array" then map(w) else . end | f; w;
def env($name): null;
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def INDEX(f): INDEX(.[]; f);
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] |= $row);
def combinations: if length == 0 then [] else .[0][] as $x | (.[1:] | combinations) as $w | [$x] + $w end;
def combinations(n): . as $dot | [range(n)] | map($dot) | combinations;
def ascii: [.] | implode;
def todate: strftime("%Y-%m-%dT%H:%M:%SZ");
def fromdate: fromdateiso8601;
def todateiso8601: todate;
def fromdateiso8601: strptime("%Y-%m-%dT%H:%M:%SZ") | mktime;
def date: todate;
def dateadd(u; n): . + n;
def datesub(u; n): . - n;
def match($re): match($re; null);
def test($re): test($re; null);
def capture($re): capture($re; null);
def named: [.captures[] | select(.name != null) | {key: .name, value: .string}] | from_entries;
def capture($re; $flags): match($re; $flags) | named;
def scan($re): scan($re; null);
def scan($re; $flags): match($re; "g" + $flags) | if .captures == [] then .string else [.captures[].string] end;
def match($re; $flags): matches_of($re; $flags)[];
def test($re; $flags): matches_of($re; $flags) | length > 0;
def split($re; $flags): . as $s
  | [foreach ((matches_of($re; "g" + $flags)[] | [.offset, .length]), null) as $m
  ({at: 0};
   .part = (if $m == null then $s[.at:] else $s[.at:$m[0]] end)
   | .at = (if $m == null then .at else $m[0] + $m[1] end);
   .part)];
def splits($re): splits($re; null);
def splits($re; $flags): split($re; $flags) | .[];
def sub($re; f): sub($re; f; "");
def sub($re; f; $flags): . as $s
  | (reduce matches_of($re; $flags)[] as $m ([[0, ""]];
      [.[] as [$at, $done] | ($m | named | f) as $new
       | [$m.offset + $m.length, $done + $s[$at:$m.offset] + $new]]))
  | .[] as [$at, $done] | $done + $s[$at:];
def gsub($re; f): sub($re; f; "g");
def gsub($re; f; $flags): sub($re; f; "g" + $flags);
def debug: .;
def debug(f): .;
def stderr: .;
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p) | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
def fromstream(f): {x: null, e: false} as $init
  | foreach f as $i ($init; if .e then $init else . end
      | if $i | length == 2 then setpath(["e"]; $i[0] | length == 0) | setpath(["x"] + $i[0]; $i[1])
        else setpath(["e"]; $i[0] | length == 1) end; if .e then .x else empty end);
def truncate_stream(f): 1 as $n | f | if (.[0] | length) > $n then setpath([0]; .[0][$n:]) else empty end;
def toarray: if type == "array" then . else [.] end;
def have_literal_numbers: true;
def have_decnum: false;
"""
"""Each definition sees all of them."""
