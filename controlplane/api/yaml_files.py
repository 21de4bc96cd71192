"""Files of YAML that a user names: read, with one line that names the file where they cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from controlplane.api import yaml_text
from controlplane.errors import UsageError

__all__ = ["read_document", "read_documents"]


def read_document(path: Path) -> Any:
    """Return the value of a file with one document, in whose maps no key is repeated. Raises UsageError."""
    try:
        return yaml_text.load(_text(path), unique=True)
    except yaml.YAMLError as error:
        raise _no_yaml(path, error) from None


def read_documents(path: Path) -> list[Any]:
    """Return the values of all documents of a file; empty ones are left out. Raises UsageError."""
    text = _text(path)
    try:
        yaml_text.guard(text)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [each for each in yaml.load_all(text, loader) if each is not None]
    except (yaml.YAMLError, ValueError) as error:
        raise _no_yaml(path, error) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None


def _no_yaml(path: Path, error: Exception) -> UsageError:
    return UsageError(f"{path}: no YAML: {' '.join(str(error).split())}")
