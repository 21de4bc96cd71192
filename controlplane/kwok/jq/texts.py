"""Strings of jq: formats, cutting and joining, regular expressions, dates."""

from __future__ import annotations

import base64
import binascii
import html
import math
from calendar import timegm
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

from controlplane.apiserver.schema import go_regexp
from controlplane.kwok.jq import operators
from controlplane.kwok.jq.operators import JqError, is_number, told

__all__ = ["FUNCTIONS", "formatted", "text"]


def text(value: Any) -> str:
    """Return the string that a value is. Raises JqError."""
    if not isinstance(value, str):
        raise JqError(f"expected a string but got: {told(value)}")
    return value


# -- formats -------------------------------------------------------------------------------------


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else operators.text_of(value)


def _row(value: Any, separator: str, cell: Callable[[str], str], name: str) -> str:
    if not isinstance(value, list):
        raise JqError(f"@{name} cannot format: {told(value)}")
    cells = []
    for each in value:
        if isinstance(each, (list, dict)):
            raise JqError(f"@{name} cannot format: {told(each)}")
        cells.append(
            cell(each)
            if isinstance(each, str)
            else ("" if each is None else operators.text_of(each))
        )
    return separator.join(cells)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "'\\''") + "'"
    if isinstance(value, (list, dict)):
        raise JqError(f"@sh cannot format: {told(value)}")
    return operators.text_of(value)


def _decoded(value: Any) -> str:
    raw = _as_text(value).rstrip("=")
    try:
        return base64.b64decode(raw + "=" * (-len(raw) % 4), validate=True).decode(
            "utf-8", "replace"
        )
    except binascii.Error:
        raise JqError(f"@base64d cannot decode: {told(value)}") from None


_TSV: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\r": "\\r", "\n": "\\n"})
_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    "@text": _as_text,
    "@json": operators.text_of,
    "@html": lambda value: html.escape(_as_text(value)).replace("&#x27;", "&#39;"),
    "@uri": lambda value: quote(_as_text(value), safe="-_.~"),
    "@urid": lambda value: unquote(_as_text(value)),
    "@csv": lambda value: _row(value, ",", lambda cell: '"' + cell.replace('"', '""') + '"', "csv"),
    "@tsv": lambda value: _row(value, "\t", lambda cell: cell.translate(_TSV), "tsv"),
    "@sh": lambda value: " ".join(map(_quoted, value)) if isinstance(value, list) else _quoted(value),
    "@base64": lambda value: base64.b64encode(_as_text(value).encode()).decode(),
    "@base64d": _decoded,
}  # fmt: skip


def formatted(name: str, value: Any) -> str:
    """Return a value as the format of this name writes it. Raises JqError."""
    if name not in _FORMATS:
        raise JqError(f"format not defined: {name}")
    return _FORMATS[name](value)


# -- regular expressions -------------------------------------------------------------------------


def _matches(value: Any, pattern: Any, flags: Any) -> list[Any]:
    """Return the matches as objects; all that do not overlap with the flag `g`."""
    subject = text(value)
    if isinstance(pattern, list):
        pattern, flags = [*pattern, None][:2] if pattern else ("", None)
    asked = "" if flags is None else text(flags)
    if unknown := set(asked) - set("gimnpslx"):
        raise JqError(f"unsupported regular expression flag: {''.join(sorted(unknown))}")
    options = "".join(dict.fromkeys({"i": "i", "s": "s", "p": "s"}.get(flag, "") for flag in asked))
    try:
        compiled = go_regexp.compiled(f"(?{options})" * bool(options) + text(pattern))
    except go_regexp.PatternError as error:
        raise JqError(f"invalid regular expression: {error}") from None
    made = []
    for spans in compiled.spans(subject):
        if "n" in asked and spans[0][1] == spans[0][2]:
            continue
        (_, start, end), *groups = spans
        made.append({**_capture(subject, start, end), "captures": [
            {**_capture(subject, first, last), "name": name} for name, first, last in groups
        ]})  # fmt: skip
        if "g" not in asked:
            break
    return made


def _capture(subject: str, start: int, end: int) -> dict[str, Any]:
    found = None if start < 0 else subject[start:end]
    return {"offset": start, "length": 0 if found is None else len(found), "string": found}


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


# -- dates ---------------------------------------------------------------------------------------


def _broken_down(value: Any) -> list[Any]:
    """Return the time as an array: month from 0, seconds with their fraction, weekday, day of the year."""
    if isinstance(value, list):
        return value
    if not is_number(value) or not math.isfinite(value):
        raise JqError(f"expected a time but got: {told(value)}")
    try:
        parts = _EPOCH + timedelta(seconds=math.floor(value))
    except OverflowError:
        raise JqError(f"not a time: {told(value)}") from None
    second: Any = parts.second + (value - math.floor(value))
    day = parts.timetuple().tm_yday - 1
    date = [parts.year, parts.month - 1, parts.day, parts.hour, parts.minute]
    return [*date, second, parts.isoweekday() % 7, day]


def _seconds(value: Any) -> int:
    if not isinstance(value, list) or len(value) < 6 or not all(map(is_number, value[:6])):
        raise JqError(f"mktime requires an array of six numbers but got: {told(value)}")
    year, month, *rest = map(int, value[:6])
    try:
        return timegm((year, month + 1, *rest, 0, 0, 0))
    except (ValueError, OverflowError):
        raise JqError(f"not a time: {told(value)}") from None


def _parsed_time(value: Any, form: Any) -> list[Any]:
    try:
        found = datetime.strptime(text(value), text(form))
    except ValueError as error:
        raise JqError(f"strptime: {error}") from None
    if found.tzinfo is not None:
        found = found.astimezone(UTC)
    return _broken_down(timegm(found.timetuple()))


def _written_time(value: Any, form: Any) -> str:
    parts = _broken_down(value)
    moment = _EPOCH + timedelta(seconds=_seconds(parts))
    return moment.strftime(text(form).replace("%Z", "UTC"))


# -- functions -----------------------------------------------------------------------------------


def _joined(value: Any, separator: Any) -> str:
    if not isinstance(value, list):
        raise JqError(f"expected an array but got: {told(value)}")
    between = text(separator) if value else ""
    parts = []
    for each in value:
        if isinstance(each, (list, dict)):
            raise JqError(f"cannot join: {told(each)}")
        parts.append("" if each is None else _as_text(each))
    return between.join(parts)


def _imploded(value: Any) -> str:
    if not isinstance(value, list) or not all(map(is_number, value)):
        raise JqError(f"implode: expected an array of code points but got: {told(value)}")
    return "".join(
        chr(int(each)) if 0 <= each < 0x110000 and not 0xD800 <= each < 0xE000 else "\ufffd"
        for each in value
    )


def _cased(upper: bool) -> Callable[[Any], str]:
    low, high = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    table = str.maketrans(low, high) if upper else str.maketrans(high, low)
    return lambda value: text(value).translate(table)


def _cut(front: bool, back: bool) -> Callable[[Any, Any], Any]:
    def native(value: Any, part: Any) -> Any:
        if not isinstance(value, str) or not isinstance(part, str):
            return value
        value = value.removeprefix(part) if front else value
        return value.removesuffix(part) if back else value

    return native


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "startswith/1": lambda value, part: text(value).startswith(text(part)),
    "endswith/1": lambda value, part: text(value).endswith(text(part)),
    "ltrimstr/1": _cut(True, False),
    "rtrimstr/1": _cut(False, True),
    "trimstr/1": _cut(True, True),
    "trim/0": lambda value: text(value).strip(),
    "ltrim/0": lambda value: text(value).lstrip(),
    "rtrim/0": lambda value: text(value).rstrip(),
    "explode/0": lambda value: [ord(char) for char in text(value)],
    "implode/0": _imploded,
    "split/1": lambda value, separator: operators.split(text(value), text(separator)),
    "join/1": _joined,
    "ascii_downcase/0": _cased(False),
    "ascii_upcase/0": _cased(True),
    "matches_of/2": _matches,
    "gmtime/0": _broken_down,
    "localtime/0": _broken_down,
    "mktime/0": _seconds,
    "strptime/1": _parsed_time,
    "strftime/1": _written_time,
    "strflocaltime/1": _written_time,
    "format/1": lambda value, name: formatted(f"@{text(name)}", value),
}
