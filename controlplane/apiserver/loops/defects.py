"""Log data of an unexpected exception."""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["panic"]

_ROOTS = ("controlplane/", "actors/")


def panic(request: str, error: BaseException) -> dict[str, Any]:
    """The request, the exception, and where it came from, innermost call last.

    Files are named from their package on, so that the same defect gives the same log everywhere.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "request": request,
        "error": f"{type(error).__name__}: {error}",
        "function": frames[-1].name if frames else "",
        "traceback": [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames],
    }


def _short(path: str) -> str:
    plain = path.replace("\\", "/")
    found = [plain.rfind(f"/{root}") for root in _ROOTS]
    at = max(found)
    return plain[at + 1 :] if at >= 0 else plain.rpartition("/")[2]
