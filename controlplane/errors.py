"""The base of all errors that mean wrong input rather than a fault of ours."""

from __future__ import annotations


class UsageError(Exception):
    """Bad input. Its text is one line that names the place and what was expected."""
