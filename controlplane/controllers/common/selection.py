"""Selection of the controllers to run. Upstream: `--controllers` of kube-controller-manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ENDING: Final = "-controller"

STANDARD: Final = (
    "replicaset-controller",
    "deployment-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
)
"""The default controllers of a scenario: every further controller makes its schedules longer."""


ALIASES: Final = {
    "attachdetach": "persistentvolume-attach-detach-controller",
    "cronjob": "cronjob-controller",
    "endpoint": "endpoints-controller",
    "endpointslicemirroring": "endpointslice-mirroring-controller",
    "garbagecollector": "garbage-collector-controller",
    "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller",
    "nodelifecycle": "node-lifecycle-controller",
    "podgc": "pod-garbage-collector-controller",
    "pvc-protection": "persistentvolumeclaim-protection-controller",
    "pv-protection": "persistentvolume-protection-controller",
    "replicationcontroller": "replicationcontroller-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation": "clusterrole-aggregation-controller",
}
"""Other names that upstream still takes, where they are not the name without its ending."""


BY_NAME_ONLY: Final = frozenset(
    {
        "device-taint-eviction-controller",
        "endpointslice-mirroring-controller",
        "persistentvolume-attach-detach-controller",
        "podgroup-protection-controller",
        "resourceclaim-controller",
        "volumeattributesclass-protection-controller",
    }
)
"""Controllers that `*` leaves out: the cluster names them where a driver's volumes have to be attached, pod groups are
served, devices are allocated, or files have Endpoints; a served cluster has Endpoints and classes of volume attributes,
too.
"""


class UnknownController(ValueError):
    """No controller has this name."""


def names_of(asked: Sequence[str]) -> tuple[str, ...]:
    """Return a selection as single words; one string separates them by commas, as `--controllers` does."""
    if isinstance(asked, str):
        return tuple(word for each in asked.split(",") if (word := each.strip()))
    return tuple(asked)


def selected(
    asked: Sequence[str], names: Collection[str], what: str = "controller"
) -> tuple[str, ...]:
    """The names of the controllers that are to run, in the order of `names`.

    `*` stands for all but those of `BY_NAME_ONLY`, `name` for one, `-name` for not this one, which wins; the ending
    -controller may be left out. `what` is the kind of name, for errors. Raises UnknownController.
    """
    on: set[str] = set()
    off: set[str] = set()
    for each in asked:
        if each == "*":
            on.update(name for name in names if name not in BY_NAME_ONLY)
            continue
        bare = each.removeprefix("-")
        wanted = ALIASES.get(bare, bare)
        found = next((name for name in names if wanted in (name, name.removesuffix(ENDING))), None)
        if found is None:
            short = (name.removesuffix(ENDING) for name in names)
            raise UnknownController(unknown_name(what, bare, (*ALIASES, *short, *names)))
        (off if each.startswith("-") else on).add(found)
    return tuple(name for name in names if name in on and name not in off)
