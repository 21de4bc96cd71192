"""Paths that must stay below a directory. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["local_descending_path", "local_name_path", "path_no_backsteps"]


def local_descending_path(text: str, path: str) -> list[FieldError]:
    """A path that stays below where it starts."""
    errors: list[FieldError] = []
    if text.startswith("/"):
        errors.append(invalid(path, text, "must be a relative path"))
    if ".." in text.split("/"):
        errors.append(invalid(path, text, "must not contain '..'"))
    return errors


def path_no_backsteps(text: str, path: str) -> list[FieldError]:
    """A path without `..`."""
    if ".." in text.split("/"):
        return [invalid(path, text, "must not contain '..'")]
    return []


def local_name_path(text: str, path: str) -> list[FieldError]:
    """A path that stays below where it starts, and whose first name does not begin with `..`."""
    errors = local_descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(invalid(path, text, "must not start with '..'"))
    return errors
