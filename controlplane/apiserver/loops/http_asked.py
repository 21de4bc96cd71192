"""A request as far as the HTTP rim looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.flags import flag

if TYPE_CHECKING:
    from controlplane.apiserver.requests.routing import RequestLine


@frozen
class Asked:
    """A request as far as the rim looks at it."""

    line: RequestLine
    query: dict[str, list[str]]
    headers: list[tuple[str, str]]
    streamed: bool
    """The client accepts chunked bodies: HTTP/1.1."""
    has_body: bool
    _first: dict[str, str]

    @property
    def method(self) -> str:
        """The method, as it was written."""
        return self.line.method

    @property
    def path(self) -> str:
        """The path without percent signs, and without the query."""
        return self.line.path

    def header(self, name: str) -> str:
        """The first value of a header, by its lower-case name."""
        return self._first.get(name, "")


class Refused(Exception):
    """The request cannot be answered as HTTP; the connection ends with this code and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def is_set(asked: Asked, name: str) -> bool:
    """Return whether a query parameter is set, as upstream reads flags."""
    return flag(next(iter(asked.query.get(name) or ()), None))
