"""Pods on a node whose resize waits for capacity, and how the scheduler treats them (KEP-5836).

Upstream: enhancements 5836, pull request 140000 (alpha in 1.37, gate
InPlacePodVerticalScalingSchedulerPreemption). Proposal, review and code disagree in places; the forms
are arguments of the plugin DeferredPodScheduling, the default of each being what the code does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from controlplane.api.resize_policy import resize_waits
from controlplane.scheduler.framework import names

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

GATE: Final = "InPlacePodVerticalScalingSchedulerPreemption"
DISABLED_CONDITION: Final = "PodResizePreemptionDisabled"
"""By the KEP the kubelet says so of a pod on a node that wants no preemption for resizes."""

PERMIT: Final = "Permit"
FILTER: Final = "Filter"
DELTA: Final = "Delta"
WITHOUT_POD: Final = "WithoutPod"
DESIRED: Final = "Desired"
ALLOCATED: Final = "Allocated"
ALLOWED: Final = "Allowed"
AWAIT_VICTIMS: Final = "AwaitVictims"

_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "parking": (PERMIT, FILTER),
    "accounting": (DELTA, WITHOUT_POD),
    "others": (DESIRED, ALLOCATED),
    "repeats": (ALLOWED, AWAIT_VICTIMS),
}


@attrs.frozen
class DeferredPodSchedulingArgs:
    """The form of preemption for resizes.

    parking: where a pod is refused whose resize fits and only waits for its kubelet: by the plugin in
        Permit (the code), or by NodeResourcesFit in Filter (the KEP's text).
    accounting: the pod is left on the node, and what it asks for beyond what it counts for there has
        to fit (Delta, the code); or it is taken off the node, and all it asks for has to fit
        (WithoutPod, the KEP's text).
    others: what other pods with a waiting resize count for: the largest of desired, allocated and
        actual (Desired: the scheduler's rule, the code), or what they have been promised and have
        (Allocated: the kubelet's rule, to be decided for beta).
    repeats: whether a pod may preempt again while victims on its node still terminate (Allowed, the
        code), or its node counts as a nomination then (AwaitVictims, the review's fourth option).
    """

    parking: str = PERMIT
    accounting: str = DELTA
    others: str = DESIRED
    repeats: str = ALLOWED


def args_of(tree: Any) -> DeferredPodSchedulingArgs:
    """The plugin's arguments as given in a configuration. Raises ValueError."""
    if tree is None or isinstance(tree, DeferredPodSchedulingArgs):
        return tree or DeferredPodSchedulingArgs()
    found: dict[str, str] = {}
    for name, value in tree.items():
        if name in ("apiVersion", "kind"):
            continue
        forms = _FORMS.get(name)
        if forms is None:
            raise ValueError(f"unknown argument {name!r}; it has {', '.join(_FORMS)}")
        if value not in forms:
            raise ValueError(f"{name}: {value!r} is none of {', '.join(forms)}")
        found[name] = value
    return DeferredPodSchedulingArgs(**found)


def wants_room(pod: Pod) -> bool:
    """Return whether the scheduler makes room for the resize: not when the kubelet reports that the node forbids it."""
    return resize_waits(pod) and not any(
        each.type == DISABLED_CONDITION and each.status == "True" for each in pod.status.conditions
    )


IN_TREE: Final = frozenset(name for key, name in vars(names).items() if key.isupper())
KEPT: Final = frozenset(
    {
        names.NODE_NAME,
        names.NODE_RESOURCES_FIT,
        names.DEFERRED_POD_SCHEDULING,
        names.DEFAULT_PREEMPTION,
    }
)
"""The plugins that look at a pod whose resize waits; all others of the tree skip it."""
