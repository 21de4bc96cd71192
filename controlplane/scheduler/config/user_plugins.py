"""Scheduler plugins of users, and the configuration file that enables them.

A plugin is a class derived from the bases in `controlplane.scheduler.framework.interface`, one base
per extension point it implements (FilterPlugin, ScorePlugin, PermitPlugin, ...). It has

- `name`: the name a KubeSchedulerConfiguration uses;
- a constructor that takes the arguments of its `pluginConfig` entry (a JSON tree, None when there
  is none) and the handle (`framework.handle.Handle`): listers, snapshot, feature gates, and the
  pods that wait in Permit;
- optionally `reads`: names of listers it needs besides those of pods and nodes, such as "services".

Its methods are called synchronously and must decide from their arguments and the handle alone: no
clock, no chance, no I/O. Arrays over all nodes are not asked of it; node by node it is asked on any
cluster.

Classes come from a module (by name, or a .py file), where every plugin class that the module
defines counts, or from installed packages, through entry points of the group
`controlplane.scheduler_plugins`, each of which names a class.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError
from controlplane.scheduler.config.expand import PluginSetConfig
from controlplane.scheduler.framework.interface import Plugin
from controlplane.scheduler.plugins.registry import Entry, Registry, in_tree_registry
from controlplane.user_code import line_of, named_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scheduler.config.model import SchedulerConfig

GROUP = "controlplane.scheduler_plugins"


def registry_with(modules: Sequence[str] = ()) -> Registry:
    """The in-tree plugins, those of scheduler-plugins, of installed packages, and of these modules.

    Raises UsageError for a module that cannot be loaded, and for a name that is taken.
    """
    from controlplane.scheduler.community import PLUGINS

    found = in_tree_registry()
    for cls in PLUGINS:
        _add(found, cls, cls.__module__)
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        _add(found, _load_entry_point(point), f"entry point {point.name}")
    for name in modules:
        for cls in named_classes(name, "scheduler plugin", Plugin):
            _add(found, cls, name)
    return found


def load_config(path: Path, registry: Registry) -> SchedulerConfig:
    """Read a KubeSchedulerConfiguration (v1). Raises UsageError with upstream's words, in one line."""
    return checked_config(_read(path), registry, str(path))


def checked_config(
    document: Mapping[str, Any] | str, registry: Registry, place: str
) -> SchedulerConfig:
    """Return the configuration that a KubeSchedulerConfiguration (v1) describes.

    Raises UsageError with upstream's words, in one line that begins with `place`.
    """
    from controlplane.scheduler.config import load as config_load

    try:
        config = config_load.load(document, registry)
        _check_community_args(config, registry)
        return config
    except ValueError as error:
        raise UsageError(f"{place}: {' '.join(str(error).split())}") from error


def _check_community_args(config: SchedulerConfig, registry: Registry) -> None:
    """Refuse arguments that a plugin of scheduler-plugins cannot be made with. Raises ProfileError."""
    from controlplane.scheduler.community import PLUGINS
    from controlplane.scheduler.community.args import ArgsError, arguments, has_arguments
    from controlplane.scheduler.config.expand import ProfileError

    known = {cls.name: cls for cls in PLUGINS if has_arguments(cls.name)}
    for profile in config.profiles:
        enabled = (name for each in (profile.plugins or {}).values() for name, _ in each)
        for name in dict.fromkeys((*profile.args, *enabled)):
            if name in known and registry[name].cls is known[name]:
                try:
                    arguments(name, profile.args.get(name))
                except ArgsError as error:
                    raise ProfileError(f'initializing plugin "{name}": {error}') from None


def defaulted_config(document: Mapping[str, Any] | Path | None) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration as a tree with all defaults.

    `document` is a valid one as a tree or in a file; None stands for one without settings. Raises UsageError.
    """
    from controlplane.scheduler.config import load as config_load
    from controlplane.scheduler.config.schema import API_VERSION, KIND

    read = _read(document) if isinstance(document, Path) else document
    found: dict[str, Any] = _without_empty(
        config_load.defaulted(read or {"apiVersion": API_VERSION, "kind": KIND})
    )
    return found


def _without_empty(value: Any) -> Any:
    """Return a defaulted document as plain trees, without what is empty."""
    if isinstance(value, PluginSetConfig):
        enabled = [
            {"name": name, "weight": weight} if weight else {"name": name}
            for name, weight in value.enabled
        ]
        disabled = [{"name": name} for name in value.disabled]
        value = {"enabled": enabled, "disabled": disabled}
    if isinstance(value, Mapping):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, "", {}, [])}
    if isinstance(value, (list, tuple)):
        return [_without_empty(each) for each in value]
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path}: cannot be read: {reason}") from error


def _add(registry: dict[str, Entry], cls: type[Plugin], place: str) -> None:
    if cls.name in registry:
        raise UsageError(f"{place}: a plugin called {cls.name!r} exists already")
    make: Any = cls
    registry[cls.name] = Entry(cls, make)


def _load_entry_point(point: Any) -> type[Plugin]:
    try:
        cls = point.load()
    except Exception as error:
        raise UsageError(f"entry point {point.name} of {GROUP}: {line_of(error)}") from error
    if not (inspect.isclass(cls) and issubclass(cls, Plugin) and cls.name):
        raise UsageError(f"entry point {point.name} of {GROUP}: not a scheduler plugin")
    return cls
