"""The addresses of webhook services that no emulated pod answers: `NAME.NAMESPACE=HOST:PORT`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.validation import parse_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["addresses", "checked", "hosts"]

_EXPECTED: Final = "NAME.NAMESPACE=HOST:PORT, such as checker.default=127.0.0.1:9443"


def checked(text: str) -> str:
    """The text itself. ValueError with what was expected."""
    _split(text)
    return text


def addresses(given: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Host and port, by the name under which the service is asked."""
    return {host: _address(place) for host, place in given.items()}


def hosts(texts: Iterable[str]) -> dict[str, str]:
    """The addresses, by the name under which the service is called."""
    return dict(_split(text) for text in texts)


def _split(text: str) -> tuple[str, str]:
    service, _, place = text.partition("=")
    parts = service.split(".")
    if len(parts) != 2 or not all(parts):
        raise ValueError(_EXPECTED)
    _address(place)
    return f"{service}.svc", place


def _address(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    number = parse_int64(port) or 0
    if not host or not 0 < number < 65_536:
        raise ValueError(_EXPECTED)
    return host.removeprefix("[").removesuffix("]"), number
