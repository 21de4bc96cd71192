"""The running parts of a cluster: the options --controllers and --without."""

from __future__ import annotations

from typing import Any, Final

from controlplane.errors import UsageError, shown

PARTS: Final[dict[str, dict[str, Any]]] = {
    "scheduler": {"schedulers": 0},
    "controllers": {"controllers": False},
    "kubelets": {"kubelets": False},
}


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def controllers(text: str) -> tuple[str, ...]:
    """The controllers that --controllers names. Raises UsageError for an unknown name."""
    from controlplane.controllers.common.selection import UnknownController, selected
    from controlplane.controllers.loops.manager import names

    asked = tuple(_listed(text))
    try:
        selected(asked, names())
    except UnknownController as error:
        raise UsageError(f"--controllers: {error}") from None
    return asked


def admission(text: str) -> tuple[str, ...]:
    """The plugins that --admission leaves out. Raises UsageError for a name that no plugin has."""
    from controlplane.apiserver.requests.admission.chain import DEFAULT_PLUGINS
    from controlplane.controllers.common.selection import UnknownController, selected

    try:
        running = selected(_listed(text), DEFAULT_PLUGINS)
    except UnknownController as error:
        told = str(error).replace("is not a controller", "is not an admission plugin")
        raise UsageError(f"--admission: {told}") from None
    return tuple(name for name in DEFAULT_PLUGINS if name not in running)


def without(text: str) -> dict[str, Any]:
    """The fields of a cluster that lacks these parts. Raises UsageError for what is no part."""
    changes: dict[str, Any] = {}
    for part in _listed(text):
        if part not in PARTS:
            raise UsageError(f"--without: {shown(part)} is no part; parts are {', '.join(PARTS)}")
        changes.update(PARTS[part])
    return changes
