"""The public names for plugins of users, as the descheduler's framework calls them.

For instance:

    from controlplane.descheduler.framework import DeschedulePlugin, Evicting, Handle, Node, Pod
"""

from __future__ import annotations

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.descheduler.evictions import (
    Evicting,
    EvictionError,
    NodeLimitReached,
    TotalLimitReached,
)
from controlplane.descheduler.handle import Handle
from controlplane.descheduler.plugins.own import (
    BalancePlugin,
    DeschedulePlugin,
    EvictorPlugin,
    Plugin,
    PluginError,
)

__all__ = [
    "BalancePlugin",
    "DeschedulePlugin",
    "Evicting",
    "EvictionError",
    "EvictorPlugin",
    "Handle",
    "Node",
    "NodeLimitReached",
    "Plugin",
    "PluginError",
    "Pod",
    "TotalLimitReached",
]
