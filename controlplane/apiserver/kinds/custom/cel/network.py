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

from controlplane.apiserver.kinds.custom.cel.syntax import CelError

__all__ = ["CIDR_METHODS", "Address", "Network", "Url", "is_address", "is_canonical", "is_network",
           "is_url", "read_address", "read_network", "read_url"]  # fmt: skip

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
        return not (value.is_unspecified or value.is_loopback or value.is_multicast
                    or value.is_link_local or str(value) == "255.255.255.255")  # fmt: skip


def _refused(text: str, why: str) -> CelError:
    return CelError(f'IP Address "{text}" parse error during conversion from string: {why}')


def read_address(text: str) -> Address:
    """The address that a text names. CelError."""
    try:
        if "%" in text:
            raise CelError(f'IP Address "{text}" with zone value is not allowed')
        value = ipaddress.ip_address(text)
    except ValueError:
        raise _refused(text, f'ParseAddr("{text}"): {_why(text)}') from None
    if isinstance(value, _V6) and value.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Address(value)


def _why(text: str) -> str:
    """What Go's netip says of a text that is no address: the first dot or colon decides which."""
    first = next((char for char in text if char in ".:%"), "")
    if first == ".":
        if any(char not in "0123456789." for char in text):
            return "unexpected character"
        fields = text.split(".")
        if any(len(part.lstrip("0")) > 3 or int(part) > 255 for part in fields if part):
            return "IPv4 field has value >255"
        if any(len(part) > 1 and part[0] == "0" for part in fields):
            return "IPv4 field has octet with leading zero"
        return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"
    return "unable to parse IP" if first != ":" else "unexpected character"


def is_address(text: str) -> bool:
    """Whether a text names an address."""
    try:
        read_address(text)
    except CelError:
        return False
    return True


def is_canonical(text: str) -> bool:
    """Whether an address is written as it is printed. CelError."""
    return str(read_address(text)) == text


@frozen
class Network:
    """An IP network, with the address that it was written with."""

    value: ipaddress.IPv4Interface | ipaddress.IPv6Interface

    def __str__(self) -> str:
        return str(self.value)


def read_network(text: str) -> Network:
    """The network that a text names. CelError."""
    head = f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
    address, slash, length = text.partition("/")
    if not slash:
        raise CelError(f"{head}: no '/'")
    try:
        if not re.fullmatch(r"0|[1-9]\d*", length):
            raise CelError(f'{head}: bad bits after slash: "{length}"')
        if "%" in address:
            raise CelError(f"{head}: IPv6 zones cannot be present in a prefix")
        value = ipaddress.ip_interface(text)
    except ValueError:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise CelError(f'{head}: ParseAddr("{address}"): {_why(address)}') from None
        raise CelError(f"{head}: prefix length out of range") from None
    if isinstance(value, ipaddress.IPv6Interface) and value.ip.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Network(value)


def is_network(text: str) -> bool:
    """Whether a text names a network."""
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
    try:
        other = read_network(given) if isinstance(given, str) else given
    except CelError:
        raise CelError("no such overload") from None
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
        raise _no_url(f"parse {_quoted(text)}: net/url: invalid control character in URL")
    elif not text.startswith("/") and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        why = "missing protocol scheme" if text.startswith(":") else "invalid URI for request"
        if ":" in text.partition("/")[0] and not text[0].isalpha() and text[0] != ":":
            why = "first path segment in URL cannot contain colon"
    if why:
        raise _no_url(f"parse {_quoted(text)}: {why}")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _no_url(f"parse {_quoted(text)}: invalid URI for request") from None
    if not parts.netloc and not parts.path.startswith("/") and not text.startswith("/"):
        raise _no_url(f"parse {_quoted(text)}: invalid URI for request")
    if " " in parts.netloc:
        raise _no_url(f'parse {_quoted(text)}: invalid character " " in host name')
    return Url(parts)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _no_url(why: str) -> CelError:
    return CelError(f"URL parse error during conversion from string: {why}")


def is_url(text: str) -> bool:
    """Whether a text names an absolute URL or path."""
    try:
        read_url(text)
    except CelError:
        return False
    return True
