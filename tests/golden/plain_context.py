"""A context for loops whose every request is answered at once: nothing waits, and time stands where it was put."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

START = 1_772_366_400_000_000_000  # 2026-03-01T12:00:00Z


class Condition:
    """Nobody waits for it."""

    def notify(self) -> None:
        pass

    def notify_all(self) -> None:
        pass


class PlainContext:
    """What loops ask of a context. `now` counts nanoseconds from START; `serve` answers requests.

    Tasks run to their end when they are begun; only events are not posted.
    """

    actor = "controller-manager"
    noting = False

    def __init__(self, serve: Any) -> None:
        self.now = 0
        self._serve = serve

    def condition(self) -> Condition:
        return Condition()

    def log(self, *_: Any, **__: Any) -> None:
        pass

    def spawn(self, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any, name: str) -> None:
        if name != "events":
            finish(main(self, *args))

    async def ask(self, _server: Any, request: Any, _timeout: Any, *, point: str) -> Any:
        return self._serve(request)

    async def join(self, _task: Any) -> None:
        pass

    async def sleep(self, *_: Any, **__: Any) -> None:
        pass

    async def point(self, _name: str) -> None:
        pass


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


class Silent:
    """A recorder of events that notes `reason message`."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def about(self, _about: Any, _kind: str, reason: str, message: str) -> None:
        self.noted.append(f"{reason} {message}")

    event = about
