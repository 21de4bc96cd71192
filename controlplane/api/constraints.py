"""The constraints on a pod's node: node and pod affinity, tolerations, taints, spreading."""

from __future__ import annotations

import attrs

from controlplane.api.meta import LabelSelector
from controlplane.api.times import Time


@attrs.frozen
class NodeSelectorRequirement:
    """One requirement on a node label or field."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


@attrs.frozen
class NodeSelectorTerm:
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


@attrs.frozen
class NodeSelector:
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


@attrs.frozen
class PreferredSchedulingTerm:
    """A node selector term with the weight that matching it earns."""

    preference: NodeSelectorTerm = attrs.field(factory=NodeSelectorTerm)
    weight: int = 0


@attrs.frozen
class NodeAffinity:
    """Required and preferred node selection."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


@attrs.frozen
class PodAffinityTerm:
    """Pods to be near to, or away from, within one topology."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""


@attrs.frozen
class WeightedPodAffinityTerm:
    """A pod affinity term with the weight of a match."""

    pod_affinity_term: PodAffinityTerm = attrs.field(factory=PodAffinityTerm)
    weight: int = 0


@attrs.frozen
class PodAffinity:
    """Required and preferred nearness to other pods."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


@attrs.frozen
class PodAntiAffinity:
    """Required and preferred distance from other pods."""

    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


@attrs.frozen
class Affinity:
    """All affinity rules of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


@attrs.frozen
class Taint:
    """A mark on a node that repels pods; `time_added` is in nanoseconds."""

    effect: str = ""
    key: str = ""
    time_added: Time | None = None
    value: str = ""


@attrs.frozen
class Toleration:
    """A tolerated taint; `toleration_seconds` None means for ever."""

    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: int | None = None
    value: str = ""


@attrs.frozen
class TopologySpreadConstraint:
    """The spreading of matching pods over the domains of a topology."""

    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int = 0
    min_domains: int | None = None
    node_affinity_policy: str = ""
    node_taints_policy: str = ""
    topology_key: str = ""
    when_unsatisfiable: str = ""
