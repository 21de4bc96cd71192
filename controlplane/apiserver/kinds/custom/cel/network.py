"""Addresses, networks and URLs.

Upstream: apiserver pkg/cel/library/{ip,cidr,urls}.go. Addresses are strict: no zones, no IPv4 in
IPv6, no leading zeros.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from attrs import frozen

from controlplane.api.validation import quote as go_quote
from controlplane.apiserver.kinds.custom.cel.tree import CelError

__all__ = [
    "CIDR_METHODS",
    "Address",
    "Network",
    "Url",
    "is_address",
    "is_canonical",
    "is_network",
    "is_url",
    "read_address",
    "read_network",
    "read_url",
]

_V6 = ipaddress.IPv6Address


@frozen
class Address:
    """An IP address."""

    value: ipaddress.IPv4Address | ipaddress.IPv6Address

    def __str__(self) -> str:
        return str(self.value)

    @property
    def link_local_multicast(self) -> bool:
        """224.0.0.0/24 or ff02::/16."""
        packed = self.value.packed
        if self.value.version == 4:
            return packed[:3] == b"\xe0\x00\x00"
        return packed[0] == 0xFF and packed[1] & 0x0F == 2

    @property
    def global_unicast(self) -> bool:
        """Neither unspecified, loopback, multicast, link-local nor broadcast."""
        value = self.value
        return not (
            value.is_unspecified
            or value.is_loopback
            or value.is_multicast
            or value.is_link_local
            or str(value) == "255.255.255.255"
        )


def read_address(text: str) -> Address:
    """The address that a text names. CelError."""
    problem = _problem(text)
    if problem:
        raise CelError(
            f"IP Address {go_quote(text)} parse error during conversion from string: {problem}"
        )
    if "%" in text:
        raise CelError(f"IP address {go_quote(text)} with zone value is not allowed")
    value = ipaddress.ip_address(text)
    if isinstance(value, _V6) and value.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return Address(value)


# -- texts that are no addresses, as Go's net/netip reports them -------------------------------------


def _problem(text: str) -> str:
    """Return why a text is not an address; "" if it is one, even with a zone."""
    first = next((char for char in text if char in ".:%"), "")
    if first == ".":
        found = _v4_problem(text)
    elif first == ":":
        found = _v6_problem(text)
    else:
        found = ("missing IPv6 address" if first else "unable to parse IP", "")
    if found is None:
        return ""
    why, at = found
    rest = f" (at {go_quote(at)})" if at else ""
    return f"ParseAddr({go_quote(text)}): {why}{rest}"


def _v4_problem(text: str) -> tuple[str, str] | None:
    """Return why a text is not an IPv4 address, and the part that shows it; None if it is one."""
    value, digits, dots = 0, 0, 0
    for at, char in enumerate(text):
        if char in "0123456789":
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero", ""
            value = value * 10 + int(char)
            digits += 1
            if value > 255:
                return "IPv4 field has value >255", ""
        elif char == ".":
            if at in (0, len(text) - 1) or text[at - 1] == ".":
                return "IPv4 field must have at least one digit", text[at:]
            if dots == 3:
                return "IPv4 address too long", ""
            dots += 1
            value = digits = 0
        else:
            return "unexpected character", text[at:]
    return ("IPv4 address too short", "") if dots < 3 else None


_HEX = "0123456789abcdefABCDEF"


def _v6_problem(text: str) -> tuple[str, str] | None:
    """Return why a text is not an IPv6 address, and the part that shows it; None if it is one."""
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string", ""
    ellipsis, read = -1, 0
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return None
    while read < 16:
        digits = len(rest) - len(rest.lstrip(_HEX))
        if digits > 4:
            return "each group must have 4 or less digits", rest
        if digits == 0:
            return "each colon-separated field must have at least one digit", rest
        if rest[digits : digits + 1] == ".":
            if ellipsis < 0 and read != 12:
                return "embedded IPv4 address must replace the final 2 fields of the address", rest
            if read > 12:
                why = "too many hex fields to fit an embedded IPv4 at the end of the address"
                return why, rest
            found = _v4_problem(rest)
            if found is not None:
                return found
            rest, read = "", read + 4
            break
        read += 2
        rest = rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            return "unexpected character, want colon", rest
        if len(rest) == 1:
            return "colon must be followed by more characters", rest
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                return "multiple :: in address", rest
            ellipsis, rest = read, rest[1:]
            if not rest:
                break
    if rest:
        return "trailing garbage after address", rest
    if read < 16:
        return ("address string too short", "") if ellipsis < 0 else None
    return ("the :: must expand to at least one field of zeros", "") if ellipsis >= 0 else None


def is_address(text: str) -> bool:
    """True for a text that names an address."""
    try:
        read_address(text)
    except CelError:
        return False
    return True


def is_canonical(text: str) -> bool:
    """True for an address that is written as it is printed. CelError."""
    return str(read_address(text)) == text


@frozen
class Network:
    """An IP network, with the address that it was written with."""

    value: ipaddress.IPv4Interface | ipaddress.IPv6Interface

    def __str__(self) -> str:
        return str(self.value)


def read_network(text: str) -> Network:
    """The network that a text names. CelError."""
    # Upstream says it twice.
    head = "network address parse error during conversion from string: " * 2
    why = _prefix_problem(text)
    if why:
        raise CelError(f"{head}netip.ParsePrefix({go_quote(text)}): {why}")
    value = ipaddress.ip_interface(text)
    if isinstance(value, ipaddress.IPv6Interface) and value.ip.ipv4_mapped is not None:
        raise CelError(
            f"{head[: len(head) // 2]}IPv4-mapped IPv6 address {go_quote(text)} is not allowed"
        )
    return Network(value)


def _prefix_problem(text: str) -> str:
    """Return why a text is not an address with a prefix length; "" if it is one."""
    address, slash, length = text.rpartition("/")
    if not slash:
        return "no '/'"
    problem = _problem(address)
    if problem:
        return problem
    if "%" in address:
        return "IPv6 zones cannot be present in a prefix"
    if not re.fullmatch(r"[0-9]|[1-9][0-9]{1,18}", length):
        return f"bad bits after slash: {go_quote(length)}"
    return "prefix length out of range" if int(length) > (128 if ":" in address else 32) else ""


def is_network(text: str) -> bool:
    """True for a text that names a network."""
    try:
        read_network(text)
    except CelError:
        return False
    return True


def _contains_ip(network: Network, given: Any) -> bool:
    try:
        address = read_address(given) if isinstance(given, str) else given
    except CelError:
        raise CelError("no such overload") from None
    return address.value in network.value.network


def _contains_network(network: Network, given: Any) -> bool:
    other = read_network(given) if isinstance(given, str) else given
    inner, outer = other.value, network.value
    if inner.version != outer.version:
        return False
    return inner.ip in outer.network and inner.network.prefixlen >= outer.network.prefixlen


CIDR_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "containsIP": _contains_ip,
    "containsCIDR": _contains_network,
    "ip": lambda network: Address(network.value.ip),
    "masked": lambda network: Network(ipaddress.ip_interface(network.value.network.with_prefixlen)),
    "prefixLength": lambda network: network.value.network.prefixlen,
}


@frozen
class Url:
    """An absolute URL or path."""

    parts: SplitResult

    def scheme(self) -> str:
        """The scheme, or nothing."""
        return self.parts.scheme

    def host(self) -> str:
        """Host and port, without the user."""
        return self.parts.netloc.rpartition("@")[2]

    def hostname(self) -> str:
        """The host without port and brackets."""
        host = self.host()
        if host.startswith("["):
            return host[1:].partition("]")[0]
        return host.partition(":")[0]

    def port(self) -> str:
        """The port as it was written, or nothing."""
        return self.host().rpartition("]")[2].partition(":")[2]

    def escaped_path(self) -> str:
        """The path with what needs it escaped."""
        return quote(self.parts.path, safe="/%:@!$&'()*+,;=~-._")

    def query(self) -> dict[str, list[str]]:
        """The values of each key."""
        return parse_qs(self.parts.query, keep_blank_values=True)


def read_url(text: str) -> Url:
    """The URL that a text names. CelError."""
    why = ""
    if not text:
        why = "empty url"
    elif any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise _no_url(f"parse {go_quote(text)}: net/url: invalid control character in URL")
    elif not text.startswith("/") and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        why = "missing protocol scheme" if text.startswith(":") else "invalid URI for request"
        if ":" in text.partition("/")[0] and not text[0].isalpha() and text[0] != ":":
            why = "first path segment in URL cannot contain colon"
    if why:
        raise _no_url(f"parse {go_quote(text)}: {why}")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _no_url(f"parse {go_quote(text)}: invalid URI for request") from None
    if " " in parts.netloc:
        raise _no_url(f'parse {go_quote(text)}: invalid character " " in host name')
    return Url(parts)


def _no_url(why: str) -> CelError:
    return CelError(f"URL parse error during conversion from string: {why}")


def is_url(text: str) -> bool:
    """True for a text that names an absolute URL or path."""
    try:
        read_url(text)
    except CelError:
        return False
    return True
