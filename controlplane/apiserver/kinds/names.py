"""Rules for names, labels, keys and the like: each function answers the list of what is wrong.

Upstream: apimachinery pkg/util/validation and pkg/api/validation.
"""

from __future__ import annotations

import ipaddress
import re
from functools import cache

from controlplane.api.equality import remembered

__all__ = [
    "config_key",
    "dns_1035_label",
    "dns_label",
    "dns_subdomain",
    "env_var_name",
    "http_header",
    "ip_problems",
    "strict_ip_problems",
    "label_key",
    "label_value",
    "path_segment",
    "port_name",
    "port_number",
    "qualified_name",
]

Problems = tuple[str, ...]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + "(\\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(" + _QUALIFIED + ")?"

_label_form = re.compile(_LABEL)
_subdomain_form = re.compile(_SUBDOMAIN)
_label_1035_form = re.compile(_LABEL_1035)
_qualified_form = re.compile(_QUALIFIED)
_value_form = re.compile(_VALUE)
_config_key_form = re.compile(r"[-._a-zA-Z0-9]+")
_header_form = re.compile(r"[-A-Za-z0-9]+")
_env_form = re.compile(r"[ -<>-~]+")
_port_chars = re.compile(r"[-a-z0-9]+")
_has_letter = re.compile(r"[a-z]")
_wildcard_form = re.compile(r"\*\." + _SUBDOMAIN)


@cache
def _rule(text: str, form: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{form}')"


_NO_MORE = "must be no more than {} characters"
_LABEL_RULE = _rule(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_RULE = _rule(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_RULE = _rule(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_QUALIFIED_EXAMPLES = ("MyName", "my.name", "123-abc")
_VALUE_RULE = _rule(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_CONFIG_KEY_RULE = _rule(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_HEADER_RULE = _rule(
    "a valid HTTP header must consist of alphanumeric characters or '-'",
    "[-A-Za-z0-9]+",
    "X-Header-Name",
)
_WILDCARD_RULE = _rule(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character",
    "\\*\\." + _SUBDOMAIN,
    "*.example.com",
)
_ENV_RULE = (
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='"
)


def masked(name: str) -> str:
    """A generateName prefix as it will look with a suffix: a dash at the end, and the byte before it, become a letter.

    Upstream: apimachinery pkg/api/validation/generic.go, maskTrailingDash, which counts bytes.
    """
    raw = name.encode()
    if len(raw) < 2 or not name.endswith("-"):
        return name
    return (raw[:-2] + b"a").decode(errors="replace")


@remembered(16384)
def dns_label(name: str) -> Problems:
    """RFC 1123 label."""
    problems = []
    if len(name) > 63:
        problems.append(_NO_MORE.format(63))
    if not _label_form.fullmatch(name):
        if _subdomain_form.fullmatch(name):
            problems.append("must not contain dots")
        else:
            problems.append(_LABEL_RULE)
    return tuple(problems)


@remembered(16384)
def dns_subdomain(name: str) -> Problems:
    """RFC 1123 subdomain."""
    problems = []
    if len(name) > 253:
        problems.append(_NO_MORE.format(253))
    if not _subdomain_form.fullmatch(name):
        problems.append(_SUBDOMAIN_RULE)
    return tuple(problems)


@remembered(4096)
def wildcard_subdomain(name: str) -> Problems:
    """RFC 1123 subdomain that begins with `*.`."""
    problems = []
    if len(name) > 253:
        problems.append(_NO_MORE.format(253))
    if not _wildcard_form.fullmatch(name):
        problems.append(_WILDCARD_RULE)
    return tuple(problems)


_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = _UNDERSCORE_LABEL + "(\\." + _UNDERSCORE_LABEL + ")*"
_underscore_form = re.compile(_UNDERSCORE_SUBDOMAIN)


@remembered(4096)
def underscore_subdomain(name: str) -> Problems:
    """RFC 1123 subdomain in which underscores may stand."""
    problems = []
    if len(name) > 253:
        problems.append(_NO_MORE.format(253))
    if not _underscore_form.fullmatch(name):
        problems.append(
            _rule(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
                "'_', '-' or '.', and must start and end with an alphanumeric character",
                _UNDERSCORE_SUBDOMAIN,
                "example.com",
            )
        )
    return tuple(problems)


@remembered(4096)
def dns_1035_label(name: str) -> Problems:
    """RFC 1035 label, which starts with a letter."""
    problems = []
    if len(name) > 63:
        problems.append(_NO_MORE.format(63))
    if not _label_1035_form.fullmatch(name):
        problems.append(_LABEL_1035_RULE)
    return tuple(problems)


def prefixed(problems: Problems, prefix: str) -> Problems:
    """The problems, each with `prefix` before it."""
    return tuple(f"{prefix} {problem}" for problem in problems)


@remembered(16384)
def qualified_name(name: str) -> Problems:
    """`[prefix/]name`."""
    problems: list[str] = []
    parts = name.split("/")
    if len(parts) == 2:
        prefix, name = parts
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += (
                text.replace("253 characters", "253 bytes")
                for text in prefixed(dns_subdomain(prefix), "prefix part")
            )
    elif len(parts) > 2:
        return (
            "a valid label key "
            + _rule(_QUALIFIED_TEXT, _QUALIFIED, *_QUALIFIED_EXAMPLES)
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _qualified_form.fullmatch(name):
        problems.append("name part " + _rule(_QUALIFIED_TEXT, _QUALIFIED, *_QUALIFIED_EXAMPLES))
    return tuple(problems)


label_key = qualified_name
"""A label key is a qualified name."""


@remembered(16384)
def label_value(value: str) -> Problems:
    """A label value."""
    problems = []
    if len(value) > 63:
        problems.append("must be no more than 63 bytes")
    if not _value_form.fullmatch(value):
        problems.append(_VALUE_RULE)
    return tuple(problems)


def path_segment(name: str) -> Problems:
    """A name that may stand in a URL path."""
    if name in {".", ".."}:
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{part}'" for part in ("/", "%") if part in name)


def config_key(key: str) -> Problems:
    """A key of a ConfigMap or Secret."""
    problems = []
    if len(key) > 253:
        problems.append(_NO_MORE.format(253))
    if not _config_key_form.fullmatch(key):
        problems.append(_CONFIG_KEY_RULE)
    if key == ".":
        problems.append("must not be '.'")
    elif key == "..":
        problems.append("must not be '..'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return tuple(problems)


def env_var_name(name: str) -> Problems:
    """An environment variable name, in the relaxed form of 1.34."""
    return () if _env_form.fullmatch(name) else (_ENV_RULE,)


def http_header(name: str) -> Problems:
    """An HTTP header name."""
    return () if _header_form.fullmatch(name) else (_HEADER_RULE,)


def port_number(port: int) -> Problems:
    """A port number."""
    return () if 1 <= port <= 65535 else ("must be between 1 and 65535, inclusive",)


def port_name(port: str) -> Problems:
    """An IANA service name."""
    problems = []
    if len(port) > 15:
        problems.append(_NO_MORE.format(15))
    if not _port_chars.fullmatch(port):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter.search(port):
        problems.append("must contain at least one letter (a-z)")
    if "--" in port:
        problems.append("must not contain consecutive hyphens")
    if port and (port[0] == "-" or port[-1] == "-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


_LEADING_ZEROS = re.compile(
    r"(?<![0-9A-Fa-f:.])0+(?=0\.|[1-9][0-9]*\.)|(?<=\.)0+(?=[0-9])|(?<=:)0+(?=0\.|[1-9][0-9]*\.)"
)
"""Zeros before the numbers of a dotted address, over which upstream's older parser reads."""


@remembered(16384)
def ip_problems(text: str) -> Problems:
    """An IP address, in any form of it. Upstream: IsValidIPForLegacyField, gate StrictIPCIDRValidation."""
    plain = _LEADING_ZEROS.sub("", text)
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    if plain != text:
        return ("must not have leading 0s",)
    if getattr(address, "ipv4_mapped", None) is not None:
        return ("must not be an IPv4-mapped IPv6 address",)
    return ()


def strict_ip_problems(text: str) -> Problems:
    """An IP address in its canonical form. Upstream: IsValidIP of apimachinery's pkg/util/validation."""
    problems = ip_problems(text)
    if problems:
        return problems
    canonical = str(ipaddress.ip_address(text))
    return () if canonical == text else (f'must be in canonical form ("{canonical}")',)
