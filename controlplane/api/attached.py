"""News of a client's session at the standard input of a container, as a value."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Attached"]


@frozen
class Attached:
    """A session of a container's run: the text that it wrote, and its exit code if its program has ended."""

    uid: str
    container: str
    container_id: str
    text: str
    code: int | None = None
