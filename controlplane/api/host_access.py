"""Targets on the serving machine of requests to a pod on a fake node: a file, a program, an address.

These are values: the world decides what is reached, and the rim of a served cluster reaches it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

__all__ = ["Address", "LogFile", "LogOptions", "Ports", "Program", "Reached", "Refusal"]


@frozen
class LogOptions:
    """The part of a log that is asked for. `since` is a time in nanoseconds since 1970, `limit` a number of bytes."""

    tail: int | None = None
    limit: int | None = None
    since: int = 0
    follow: bool = False
    timestamps: bool = False


@frozen
class LogFile:
    """A file in the format of a container's log; "" where none is told of."""

    path: str
    options: LogOptions


@frozen
class Program:
    """A program of the machine: where, with which environment besides that of the server, and as whom it runs."""

    command: tuple[str, ...] = ()
    directory: str = ""
    env: tuple[tuple[str, str], ...] = ()
    user: int | None = None
    group: int | None = None


@frozen
class Address:
    """An address that is reached over TCP."""

    host: str
    port: int


@frozen
class Refusal:
    """Nothing is reached; the text is the server's."""

    text: str


@frozen
class Ports:
    """The ports of a pod. `pod` is its name in errors; `at` returns what a port leads to."""

    pod: str
    at: Callable[[int], Program | Address | Refusal] = field(eq=False)


Reached = LogFile | Program | Ports | Refusal
