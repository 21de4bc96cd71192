"""JSON as the exports write it: on one line, without blanks, letters as they are."""

from __future__ import annotations

import json

__all__ = ["compact"]

compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""A value as JSON text."""
