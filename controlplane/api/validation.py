"""Names and label syntax, with upstream's messages, and how field errors are joined to one text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from controlplane.api.equality import remembered

_NAME_FORM: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME: Final = re.compile(_NAME_FORM)
_VALUE: Final = re.compile(f"({_NAME_FORM})?")
_LABEL_FORM: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL_FORM)
_SUBDOMAIN_FORM: Final = rf"{_LABEL_FORM}(\.{_LABEL_FORM})*"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_FORM)

_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME_FORM}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    f" or '12345', regex used for validation is '({_NAME_FORM})?')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    rf"for validation is '{_SUBDOMAIN_FORM}')"
)
_DNS_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL_FORM}')"
)

NAME_BYTES: Final = 63
SUBDOMAIN_BYTES: Final = 253


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def label_key_errors(key: str, what: str = "a valid label key") -> tuple[str, ...]:
    """Return the errors of a label key (`name` or `prefix/name`); empty when it is valid."""
    if len(key) > _LONGEST:
        return _key_errors.__wrapped__(key, what)
    return _key_errors(key, what)


_LONGEST: Final = 512
"""Nothing is remembered of longer ones."""


@lru_cache(maxsize=16384)
def _key_errors(key: str, what: str) -> tuple[str, ...]:
    errors: list[str] = []
    parts = key.split("/")
    if len(parts) > 2:
        return (f"{what} {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')",)  # fmt: skip
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {error}" for error in dns_subdomain_errors(parts[0])]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > NAME_BYTES:
        errors.append(f"name part {_too_long(NAME_BYTES)}")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return tuple(errors)


@remembered(16384)
def label_value_errors(value: str) -> tuple[str, ...]:
    """Return the errors of a label value; empty when it is valid."""
    errors = []
    if _size(value) > NAME_BYTES:
        errors.append(_too_long(NAME_BYTES))
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_RULE)
    return tuple(errors)


def dns_subdomain_errors(name: str) -> tuple[str, ...]:
    """Return the errors of a name that must be a DNS subdomain (most object names)."""
    errors = []
    if _size(name) > SUBDOMAIN_BYTES:
        errors.append(_too_long(SUBDOMAIN_BYTES))
    if not _SUBDOMAIN.fullmatch(name):
        errors.append(_SUBDOMAIN_RULE)
    return tuple(errors)


def dns_label_errors(name: str) -> tuple[str, ...]:
    """Return the errors of a name that must be a DNS label (namespaces, containers)."""
    errors = []
    if _size(name) > NAME_BYTES:
        errors.append(_too_long(NAME_BYTES))
    if not _DNS_LABEL.fullmatch(name):
        errors.append(_DNS_LABEL_RULE)
    return tuple(errors)


_ESCAPES: Final = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
                   "\v": "\\v", "\\": "\\\\", '"': '\\"'}  # fmt: skip


def _escape(char: str) -> str:
    known = _ESCAPES.get(char)
    if known is not None:
        return known
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quote(text: str) -> str:
    """Text in double quotes as Go's %q writes it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def invalid(path: str, value: str | Sequence[str], detail: str) -> str:
    """The text of an "Invalid value" field error; lists are shown as JSON, none at all as null."""
    if isinstance(value, str):
        shown = quote(value)
    else:
        shown = json.dumps(list(value), separators=(",", ":")) if value else "null"
    return f"{path}: Invalid value: {shown}: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    """The text of an "Unsupported value" field error."""
    choices = ", ".join(quote(choice) for choice in supported)
    return f"{path}: Unsupported value: {quote(value)}: supported values: {choices}"


def aggregate(messages: Iterable[str]) -> str:
    """Several error texts as one, the way upstream's aggregate prints: each once, in brackets."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def child(path: str, field: str) -> str:
    """The path of a field below a path that may be empty."""
    return f"{path}.{field}" if path else field


INT64_DIGITS: Final = 19
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def go_int64(text: str) -> int:
    """The number that Go's ParseInt(text, 10, 64) reads. ValueError with Go's text where it fails."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    significant = text.lstrip("+-").lstrip("0") or "0"
    if len(significant) <= INT64_DIGITS:
        value = -int(significant) if text[0] == "-" else int(significant)
        if -(1 << 63) <= value < 1 << 63:
            return value
    raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")


def parse_int64(text: str) -> int | None:
    """The number that Go's ParseInt(text, 10, 64) reads, None where it fails."""
    if not _INTEGER.fullmatch(text) or len(text) > 4000:
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None
