"""Python code that a recording names, and the permission to run it.

A recording is data: opening one runs nothing that the package does not bring, unless the user names the file or the
module on the command line (`--allow-code`) or hands over the scenario. Before allowed code runs, its digest must be the
recorded one.
"""

from __future__ import annotations

import shlex
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["NO_CODE", "AllowedCode", "allowance", "source_of"]

SUFFIX = ".py"
CODE_OPTIONS = ("scheduler_plugin", "descheduler_plugin", "own_controller", "kueue_job")
"""The options that name code, apart from the scenario."""


class AllowedCode:
    """The files, folders and modules whose code may run.

    Args:
        names: paths of files or of folders (for all files in them), or dotted names of modules.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._paths = frozenset(Path(name).resolve() for name in self._names)

    def check(self, name: str, beside: Path | str) -> None:
        """Refuse code that is not allowed. Raises UsageError with the option that would allow it."""
        if name in self._names:
            return
        if name.endswith(SUFFIX):
            place = Path(name).resolve()
            if any(each in self._paths for each in (place, *place.parents)):
                return
        raise UsageError(
            f"{beside}: it would run the code of {shown(name)}, which a recording may not do by itself;"
            f" if you trust that code: --allow-code {name}"
        )


NO_CODE = AllowedCode()


def allowance(header: Mapping[str, Any]) -> str:
    """Return the options, with a blank before each, that let a recording run the code that its header names."""
    address = str(header["scenario"]["address"])
    names = [address] if address.endswith(SUFFIX) else []
    for key in CODE_OPTIONS:
        names += header["options"].get(key, ())
    return "".join(f" --allow-code {shlex.quote(name)}" for name in names)


def source_of(name: str) -> bytes:
    """Return the source of a file, or of a module that is found without importing anything. Raises UsageError."""
    path = Path(name) if name.endswith(SUFFIX) else _module_file(name)
    if path is None or not path.is_file():
        raise UsageError(f"{name}: no such file or module")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error


def _module_file(name: str) -> Path | None:
    """Return the file of a module, as importing it would find it; packages around it are not imported."""
    places: list[str] | None = None
    found = None
    for end in range(1, name.count(".") + 2):
        found = PathFinder.find_spec(".".join(name.split(".")[:end]), places)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    return Path(found.origin) if found is not None and found.origin else None
