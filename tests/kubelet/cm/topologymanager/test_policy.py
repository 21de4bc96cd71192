from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from controlplane.kubelet.cm.topologymanager.hints import Hints, TopologyHint
from controlplane.kubelet.cm.topologymanager.options import TopologyOptions
from controlplane.kubelet.cm.topologymanager.policy import (
    BEST_EFFORT,
    RESTRICTED,
    SINGLE_NUMA_NODE,
    NUMAInfo,
    Policy,
    hint_lists,
)
from controlplane.kubelet.machine import NUMANode

hint = st.builds(TopologyHint, st.one_of(st.none(), st.integers(1, 15)), st.booleans())
provider = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["cpu", "memory", "gpu"]), st.one_of(st.none(), st.lists(hint, max_size=4))
    ),
)


def numa(closest: bool = False) -> tuple[NUMAInfo, TopologyOptions]:
    options = TopologyOptions(prefer_closest=closest)
    rows = [(10, 30, 20, 20), (30, 10, 20, 40), (20, 20, 10, 12), (20, 40, 12, 10)]
    nodes = [NUMANode(i, distances=row) for i, row in enumerate(rows)]
    return NUMAInfo.of(nodes, options), options


def slow_merge(policy: Policy, given: list[Hints]) -> TopologyHint:
    """Upstream's way: one comparison after the other over the whole cross product."""
    lists = hint_lists(given)
    everywhere = policy.numa.all_nodes
    widths = [[h.mask.bit_count() for h in hints if h.mask is not None] for hints in lists]
    target = max((min(counts) for counts in widths if counts), default=0)

    def fitter(best: TopologyHint, other: TopologyHint) -> TopologyHint:
        one, two = best.mask, other.mask
        assert one is not None and two is not None
        if one == two:
            return best
        a, b = one.bit_count(), two.bit_count()
        if a != b:
            return other if b < a else best
        if policy.options.prefer_closest:
            near, far = policy.numa.average_distance(one), policy.numa.average_distance(two)
            if near != far:
                return other if far < near else best
        return other if two < one else best

    best: TopologyHint | None = None
    for choice in product(*lists):
        masks = [h.mask for h in choice if h.mask is not None]
        merged = everywhere
        for mask in masks:
            merged &= mask
        preferred = all(h.preferred for h in choice) and all(mask == masks[0] for mask in masks)
        other = TopologyHint(merged, preferred)
        if not merged:
            continue
        if best is None or other.preferred and not best.preferred:
            best = other
        elif best.preferred and not other.preferred:
            continue
        elif best.preferred:
            best = fitter(best, other)
        else:
            assert best.mask is not None
            a, b = best.mask.bit_count(), merged.bit_count()
            if a > target:
                best = fitter(best, other)
            elif a == target:
                best = fitter(best, other) if b == target else best
            elif b > target:
                continue
            elif b == target or b > a:
                best = other
            elif b == a:
                best = fitter(best, other)
    return best or TopologyHint(everywhere, False)


@given(st.lists(provider, max_size=3), st.booleans())
def test_merging_equals_the_fold_over_all_permutations(given: list[Hints], closest: bool) -> None:
    policy = Policy(BEST_EFFORT, *numa(closest))
    assert policy.merge(given)[0] == slow_merge(policy, given)


@given(st.lists(provider, max_size=3))
def test_policies_differ_in_what_they_admit(given: list[Hints]) -> None:
    best, admitted = Policy(BEST_EFFORT, *numa()).merge(given)
    assert admitted
    assert Policy(RESTRICTED, *numa()).merge(given) == (best, best.preferred)
    single, aligned = Policy(SINGLE_NUMA_NODE, *numa()).merge(given)
    assert aligned == single.preferred
    if aligned and single.mask is not None:
        assert single.mask.bit_count() == 1


def test_the_closer_pair_of_nodes_wins_when_asked_for() -> None:
    given: list[Hints] = [{"cpu": [TopologyHint(0b0011, True), TopologyHint(0b1100, True)]}]
    assert Policy(RESTRICTED, *numa()).merge(given)[0].mask == 0b0011
    assert Policy(RESTRICTED, *numa(closest=True)).merge(given)[0].mask == 0b1100
