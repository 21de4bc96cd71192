"""Answers in plain text, as net/http's Error writes them."""

from __future__ import annotations

from typing import Final

from controlplane.apiserver.front.served import Answer

__all__ = ["TEXT", "page_not_found", "plain_answer"]

TEXT: Final = "text/plain; charset=utf-8"


def plain_answer(code: int, text: str) -> Answer:
    """Return an answer whose type browsers must not guess."""
    return code, {"Content-Type": TEXT, "X-Content-Type-Options": "nosniff"}, None, text


def page_not_found() -> Answer:
    """Return the answer to a path that nothing serves."""
    return plain_answer(404, "404 page not found\n")
