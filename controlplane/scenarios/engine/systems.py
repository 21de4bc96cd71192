"""Systems that run beside the control plane, and their options: what `--with NAME` adds to a cluster.

To add a system, add a row to `SYSTEMS` and its options to `OPTIONS`; modules of a system are imported only for worlds
that have it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from controlplane.errors import UsageError
from controlplane.scenarios.engine.option import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting

    Changes = Mapping[str, Any]


@frozen
class System:
    """One system.

    `options` are its own options, of which `needed` must be given; `changes` returns the fields of the cluster's
    configuration that change, and raises UsageError.
    """

    changes: Callable[[ClusterConfig, Setting], Changes]
    options: tuple[Option, ...]
    needed: tuple[Option, ...] = ()


def _descheduler(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.api.times import SECOND
    from controlplane.descheduler.controller import descheduler_of
    from controlplane.descheduler.policy import load

    descheduler = descheduler_of(
        load(Path(setting["descheduler_policy"])),
        interval_ns=round(setting["descheduling_interval"] * SECOND),
        dry_run=setting["descheduler_dry_run"],
    )
    return {"own_controllers": (*config.own_controllers, descheduler)}


DESCHEDULER_POLICY = Option(
    "descheduler-policy",
    metavar="FILE",
    names_files=True,
    help="DeschedulerPolicy (descheduler/v1alpha2) of --with descheduler.",
)
DESCHEDULING_INTERVAL = Option(
    "descheduling-interval",
    type=float,
    default=300.0,
    low=1,
    metavar="SECONDS",
    help="Virtual time between two passes of the descheduler.",
)
DESCHEDULER_DRY_RUN = Option(
    "descheduler-dry-run",
    type=bool,
    default=False,
    help="Let the descheduler decide and evict nothing.",
)


def _kwok(config: ClusterConfig, setting: Setting) -> Changes:
    from controlplane.cluster import served_kinds
    from controlplane.kwok.controller import kwok_of
    from controlplane.kwok.stages import load

    stages = load([Path(name) for name in setting["stages"]])
    built_in = frozenset(
        (kind.resource.api_version, kind.kind) for kind in served_kinds(setting.release)
    )
    return {"own_controllers": (*config.own_controllers, kwok_of(stages, built_in))}


STAGES = Option(
    "stages",
    many=True,
    default=(),
    metavar="FILE",
    names_files=True,
    help="Stages (kwok.x-k8s.io/v1alpha1) of --with kwok. Repeatable.",
)

SYSTEMS: Final[Mapping[str, System]] = {
    "descheduler": System(
        _descheduler,
        (DESCHEDULER_POLICY, DESCHEDULING_INTERVAL, DESCHEDULER_DRY_RUN),
        needed=(DESCHEDULER_POLICY,),
    ),
    "kwok": System(_kwok, (STAGES,), needed=(STAGES,)),
}


def parse_with(setting: Setting) -> None:
    """Refuse a system without the options that it needs. Raises UsageError."""
    for name in setting["with"]:
        for option in SYSTEMS[name].needed:
            if not setting[option.key]:
                raise UsageError(f"--with {name} needs --{option.name} {option.metavar}".rstrip())


def _of_system(name: str, option: Option) -> Option:
    """The option, which is refused when it is given without the system of this name."""

    def parse(setting: Setting) -> None:
        if name not in setting["with"] and setting[option.key] != option.default:
            raise UsageError(f"--{option.name} needs --with {name}")

    return evolve(option, parse=parse)


def apply_with(config: ClusterConfig, setting: Setting) -> Changes:
    """The cluster with the systems of `--with`, in the order in which they are named."""
    changes: dict[str, Any] = {}
    for name in dict.fromkeys(setting["with"]):
        more = SYSTEMS[name].changes(config, setting)
        changes.update(more)
        config = evolve(config, **more)
    return changes


WITH = Option(
    "with",
    many=True,
    default=(),
    choices=tuple(SYSTEMS),
    help="Run this system beside the control plane. Repeatable.",
    parse=parse_with,
    apply=apply_with,
)
OPTIONS: Final = (
    WITH,
    *(_of_system(name, option) for name, system in SYSTEMS.items() for option in system.options),
)
"""What the common options take over."""
