"""A finding made small: fewer requests, less in the last of them, and all of it printed as a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.chaos.fuzz.judging import Finding
from tests.chaos.fuzz.messages import Message
from tests.chaos.fuzz.process import run
from tests.chaos.fuzz.spoiling import at, places

Json = Any
TRIES = 400
"""How often a conversation is sent again at most."""


class Shrinking:
    """Looks for a smaller conversation that shows the same."""

    def __init__(self, finding: Finding, *, durable: bool, tries: int = TRIES) -> None:
        self._wanted = (finding.kind, finding.text)
        self._durable = durable
        self._left = tries

    def shows(self, messages: list[Message]) -> bool:
        """Whether a conversation shows it; never when there are no tries left."""
        self._left -= 1
        if self._left < 0:
            return False
        found = run(messages, durable=self._durable)[1]
        return any((each.kind, each.text) == self._wanted for each in found)

    def shrunk(self, messages: list[Message]) -> list[Message]:
        """A conversation as small as was found. The last message shows it."""
        if not self.shows(messages):
            return messages
        messages = self._fewer(messages)
        for number in reversed(range(len(messages))):
            messages = self._less(messages, number)
        return messages

    def _fewer(self, messages: list[Message]) -> list[Message]:
        size = max(1, len(messages) // 2)
        while True:
            start = 0
            while start < len(messages):
                fewer = messages[:start] + messages[start + size :]
                if fewer and self.shows(fewer):
                    messages = fewer
                else:
                    start += size
            if size == 1:
                return messages
            size = max(1, size // 2)

    def _less(self, messages: list[Message], number: int) -> list[Message]:
        """With less in one of the messages."""

        def attempt(smaller: Message) -> bool:
            nonlocal messages
            tried = [*messages[:number], smaller, *messages[number + 1 :]]
            if self.shows(tried):
                messages = tried
                return True
            return False

        message = messages[number]
        path, _, query = message.target.partition("?")
        if query and attempt(Message(message.method, path, message.headers, message.body)):
            pass
        elif query:
            for part in query.split("&"):
                now = messages[number]
                here, _, rest = now.target.partition("?")
                kept = "&".join(each for each in rest.split("&") if each != part)
                if kept:
                    attempt(Message(now.method, f"{here}?{kept}", now.headers, now.body))
        for header in message.headers:
            now = messages[number]
            kept_headers = tuple(each for each in now.headers if each != header)
            attempt(Message(now.method, now.target, kept_headers, now.body))
        self._smaller_body(lambda: messages[number], attempt)
        return messages

    def _smaller_body(self, now: Callable[[], Message], attempt: Callable[[Message], bool]) -> None:
        def with_body(raw: bytes) -> bool:
            message = now()
            return attempt(Message(message.method, message.target, message.headers, raw))

        try:
            tree = json.loads(now().body)
        except ValueError:
            size = len(now().body) // 2
            while size:
                start = 0
                while start < len(now().body) and self._left > 0:
                    raw = now().body
                    if not with_body(raw[:start] + raw[start + size :]):
                        start += size
                size //= 2
            return
        again = True
        while again and self._left > 0:
            again = False
            for path in places(tree)[1:]:
                smaller = json.loads(json.dumps(tree))
                del at(smaller, path[:-1])[path[-1]]
                if with_body(json.dumps(smaller).encode()):
                    tree, again = smaller, True
                    break


def as_test(messages: list[Message], finding: Finding, *, durable: bool = False) -> str:
    """A conversation as a test that is ready to be put into a file."""
    lines = ["from tests.chaos.fuzz import replay", "", "", "def test_found_by_fuzzing():"]
    lines += [f"    # {finding.kind}: {finding.text}", "    assert replay(["]
    for each in messages:
        lines.append(
            f"        ({each.method!r}, {each.target!r}, {dict(each.headers)!r}, {each.body!r}),"
        )
    lines.append("    ], durable=True) == []" if durable else "    ]) == []")
    return "\n".join(lines)
