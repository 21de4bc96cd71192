"""Plugins of users: what one is, and where they come from.

A plugin is a class derived from the bases below, one for each extension point that it implements. It has

- `name`: the name by which policies enable it and give it arguments;
- a constructor that takes the arguments of its `pluginConfig` entry (a JSON tree, {} where there are none) and the
  handle of its profile. It raises ValueError for arguments that are not valid;
- the methods of its extension points.

`deschedule` and `balance` are generators: an eviction is a request to the API server, which they yield
(`yield from self.handle.evict_each(pods, self.name)`). Between two of them nothing else happens; after one the caches
may have changed. All else is decided from the handle alone: no clock but `handle.world.now`, no chance, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.errors import UsageError
from controlplane.user_code import named_classes

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.descheduler.evictions import Evicting
    from controlplane.descheduler.handle import Handle

__all__ = [
    "BalancePlugin",
    "DeschedulePlugin",
    "EvictorPlugin",
    "OwnPlugins",
    "Plugin",
    "PluginError",
    "load",
]


class PluginError(Exception):
    """A plugin ends with an error: it is logged, and the other plugins of the pass go on."""


class Plugin:
    """A plugin of a profile: one is made for each profile that enables it."""

    name: ClassVar[str] = ""

    def __init__(self, args: Mapping[str, Any], handle: Handle) -> None:
        self.args = args
        self.handle = handle


class DeschedulePlugin(Plugin):
    """The extension point `deschedule`: look at pods one by one."""

    def deschedule(self, nodes: list[Node]) -> Evicting:
        """Evict pods of the ready nodes of a pass."""
        raise NotImplementedError


class BalancePlugin(Plugin):
    """The extension point `balance`: look at how pods are spread; runs after `deschedule` of all profiles."""

    def balance(self, nodes: list[Node]) -> Evicting:
        """Evict pods of the ready nodes of a pass."""
        raise NotImplementedError


class EvictorPlugin(Plugin):
    """The extension points `filter` and `preevictionfilter`: refuse to evict pods, besides the default evictor."""

    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be considered at all."""
        return True

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted now."""
        return True


OwnPlugins = Mapping[str, type[Plugin]]
"""The plugins of users by name."""


def load(modules: Sequence[str], taken: Sequence[str]) -> OwnPlugins:
    """Return the plugins that these modules define. Raises UsageError for a module that will not do."""
    found: dict[str, type[Plugin]] = {}
    for name in modules:
        for each in named_classes(name, "descheduler plugin", Plugin):
            if each.name in found or each.name in taken:
                raise UsageError(f"{name}: a plugin called {each.name!r} exists already")
            if not issubclass(each, DeschedulePlugin | BalancePlugin | EvictorPlugin):
                raise UsageError(
                    f"{name}: plugin {each.name!r}: expected a base DeschedulePlugin, BalancePlugin or EvictorPlugin"
                )
            found[each.name] = each
    return found
