"""Options of the static policy. Upstream: pkg/kubelet/cm/cpumanager/policy_options.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from controlplane.api.validation import quote
from controlplane.gates import minor_of
from controlplane.kubelet.cm.cpumanager.topology import CPUTopology
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.go_text import GoTextError, parse_bool
from controlplane.kubelet.features import Features

FULL_PCPUS_ONLY: Final = "full-pcpus-only"
DISTRIBUTE_NUMA: Final = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET: Final = "align-by-socket"
DISTRIBUTE_CORES: Final = "distribute-cpus-across-cores"
STRICT_RESERVATION: Final = "strict-cpu-reservation"
PREFER_UNCORE: Final = "prefer-align-cpus-by-uncorecache"

_STABLE: Final = "Stable"
_HISTORY: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    FULL_PCPUS_ONLY: (("1.22", "Alpha"), ("1.23", "Beta"), ("1.33", _STABLE)),
    DISTRIBUTE_NUMA: (("1.23", "Alpha"), ("1.33", "Beta")),
    ALIGN_BY_SOCKET: (("1.25", "Alpha"),),
    DISTRIBUTE_CORES: (("1.31", "Alpha"),),
    STRICT_RESERVATION: (("1.32", "Alpha"), ("1.33", "Beta"), ("1.35", _STABLE)),
    PREFER_UNCORE: (("1.32", "Alpha"), ("1.34", "Beta"), ("1.36", _STABLE)),
}
"""Option -> since which release it has which maturity."""

_EXCLUSIVE: Final = (
    (FULL_PCPUS_ONLY, DISTRIBUTE_CORES),
    (DISTRIBUTE_NUMA, DISTRIBUTE_CORES),
    (PREFER_UNCORE, DISTRIBUTE_CORES),
    (PREFER_UNCORE, DISTRIBUTE_NUMA),
)


@attrs.frozen
class StaticOptions:
    """The enabled options."""

    full_pcpus_only: bool = False
    distribute_numa: bool = False
    align_by_socket: bool = False
    distribute_cores: bool = False
    strict_reservation: bool = False
    prefer_uncore: bool = False


_FIELDS: Final = {
    FULL_PCPUS_ONLY: "full_pcpus_only",
    DISTRIBUTE_NUMA: "distribute_numa",
    ALIGN_BY_SOCKET: "align_by_socket",
    DISTRIBUTE_CORES: "distribute_cores",
    STRICT_RESERVATION: "strict_reservation",
    PREFER_UNCORE: "prefer_uncore",
}


def maturity(option: str, features: Features) -> str | None:
    """Alpha, Beta or Stable in this release; None for an option that it does not have."""
    found = None
    for since, stage in _HISTORY.get(option, ()):
        if minor_of(since) <= minor_of(features.release):
            found = stage
    return found


def static_options(given: Mapping[str, str], features: Features) -> StaticOptions:
    """The options of a configuration. Raises ManagerError."""
    values: dict[str, bool] = {}
    for name, text in sorted(given.items()):
        stage = maturity(name, features)
        if stage is None:
            raise ManagerError(f"unknown CPU Manager Policy option: {quote(name)}")
        if stage != _STABLE and not features.enabled(f"CPUManagerPolicy{stage}Options"):
            raise ManagerError(
                f"CPU Manager Policy {stage}-level Options not enabled, but option "
                f"{quote(name)} provided"
            )
        try:
            values[name] = parse_bool(text)
        except GoTextError as error:
            raise ManagerError(f"bad value for option {quote(name)}: {error}") from None
    for one, other in _EXCLUSIVE:
        if values.get(one) and values.get(other):
            raise ManagerError(
                f"static policy options {one} and {other} can not be used at the same time"
            )
    return StaticOptions(**{_FIELDS[name]: value for name, value in values.items()})


def check_options(options: StaticOptions, topology: CPUTopology, topology_policy: str) -> None:
    """Refuse options that the machine or the topology manager's policy rule out. Raises ManagerError."""
    if not options.align_by_socket:
        return
    if topology_policy == "single-numa-node":
        raise ManagerError(
            "Topolgy manager single-numa-node policy is incompatible with CPUManager "
            "align-by-socket policy option"
        )
    if topology.num_sockets > len(topology.numas):
        raise ManagerError(
            "Align by socket is not compatible with hardware where number of sockets are more "
            "than number of NUMA"
        )
