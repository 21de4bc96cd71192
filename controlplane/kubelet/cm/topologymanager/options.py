"""Options of the topology manager. Upstream: pkg/kubelet/cm/topologymanager/policy_options.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from controlplane.api.validation import quote
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.go_text import GoTextError, atoi, parse_bool

PREFER_CLOSEST: Final = "prefer-closest-numa-nodes"
MAX_NODES: Final = "max-allowable-numa-nodes"
DEFAULT_MAX_NODES: Final = 8


@attrs.frozen
class TopologyOptions:
    """The configured options; `max_numa_nodes` is the largest number of NUMA nodes of a machine."""

    prefer_closest: bool = False
    max_numa_nodes: int = DEFAULT_MAX_NODES


def topology_options(given: Mapping[str, str]) -> TopologyOptions:
    """The options of a configuration. Both are stable in 1.36. Raises ManagerError."""
    closest = False
    nodes = DEFAULT_MAX_NODES
    for name, value in sorted(given.items()):
        if name == PREFER_CLOSEST:
            try:
                closest = parse_bool(value)
            except GoTextError as error:
                raise ManagerError(f"bad value for option {quote(name)}: {error}") from None
        elif name == MAX_NODES:
            try:
                nodes = atoi(value)
            except GoTextError as error:
                raise ManagerError(
                    f"unable to convert policy option to integer {quote(name)}: {error}"
                ) from None
            if nodes < DEFAULT_MAX_NODES:
                raise ManagerError(
                    f"the minimum value of {quote(name)} should not be less than "
                    f"{DEFAULT_MAX_NODES}"
                )
        else:
            raise ManagerError(f"unknown Topology Manager Policy option: {quote(name)}")
    return TopologyOptions(closest, nodes)
