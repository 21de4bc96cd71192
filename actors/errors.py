"""Exceptions of the runtime. The class says where the fault lies: in the use, in an actor, in a recording."""

from __future__ import annotations


class ActorsError(Exception):
    """Base of all errors of this package."""


class UsageError(ActorsError):
    """The caller used the runtime wrongly; the message says what was expected."""


class Timeout(ActorsError):
    """A wait with a time limit ended at its limit (virtual time)."""


class LinkBroken(ActorsError):
    """The link to the peer was reset, or the peer is down: the outcome of the request is unknown."""


class RecordingError(ActorsError):
    """A recording cannot be read: not one of ours, damaged, or of another format version."""


class Divergence(ActorsError):
    """A replay met another choice than the one recorded.

    `index` is the position in the choice list, `step` the step at which it was met.
    """

    def __init__(self, message: str, *, index: int, step: int) -> None:
        super().__init__(message)
        self.index = index
        self.step = step


class Abandoned(ActorsError):
    """A strategy gives the run up: what it would still show is known from another run."""


class Cancelled(BaseException):
    """Thrown into a task that was cancelled. Not an Exception, so that `except Exception` lets it pass."""


class Killed(BaseException):
    """Thrown into every task of an actor that crashes, and of all actors when a run is torn down.

    `finally` blocks run, but whatever they send, write or arm is dropped: a crash has no last
    words.
    """
