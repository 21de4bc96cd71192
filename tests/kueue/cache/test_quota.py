"""Laws of quota in trees of cohorts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.cache.quota import CohortNode, QueueNode, Quota, update_tree

PAIR = FlavorResource("default", "cpu")
LIMITS = st.none() | st.integers(0, 8)


def node_quota():
    return st.builds(Quota, st.integers(0, 10), LIMITS, LIMITS)


@st.composite
def trees(draw):
    """A root, up to three cohorts below each other or it, and up to four queues anywhere."""
    cohorts = [CohortNode("root")]
    for at in range(draw(st.integers(0, 3))):
        child = CohortNode(f"cohort-{at}")
        parent = draw(st.sampled_from(cohorts))
        parent.cohorts[child.name] = child
        child.parent = parent
        cohorts.append(child)
    queues = []
    for at in range(draw(st.integers(1, 4))):
        queue = QueueNode(f"queue-{at}")
        parent = draw(st.sampled_from(cohorts))
        parent.queues[queue.name] = queue
        queue.parent = parent
        queues.append(queue)
    for node in [*cohorts, *queues]:
        node.quotas = {PAIR: draw(node_quota())}
    update_tree(cohorts[0])
    return cohorts, queues


def usages(nodes):
    return [node.usage.get(PAIR, 0) for node in nodes]


@pytest.mark.slow
@given(trees(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=8))
@settings(max_examples=150, deadline=None)
def test_usage_in_cohorts_follows_from_the_queues(tree, steps) -> None:
    """Usage added step by step is what a recomputation of the tree finds; removed, all is as before."""
    cohorts, queues = tree
    before = usages([*cohorts, *queues])
    taken = [(queues[at % len(queues)], amount) for at, amount in steps]
    for queue, amount in taken:
        queue.add_usage(PAIR, amount)
    stepwise = usages([*cohorts, *queues])
    update_tree(cohorts[0])
    assert usages([*cohorts, *queues]) == stepwise
    for queue, amount in reversed(taken):
        queue.remove_usage(PAIR, amount)
    assert usages([*cohorts, *queues]) == before


@pytest.mark.slow
@given(trees(), st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_what_is_available_can_be_taken(tree, amount) -> None:
    _, queues = tree
    queue = queues[0]
    assert queue.available(PAIR) <= max(0, queue.potential(PAIR))
    if amount <= queue.available(PAIR):
        left = queue.available(PAIR) - amount
        queue.add_usage(PAIR, amount)
        assert queue.available(PAIR) == left


@pytest.mark.slow
@given(trees(), st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_a_queue_within_its_nominal_quota_borrows_from_nowhere(tree, amount) -> None:
    cohorts, queues = tree
    height, more_above = queues[0].lowest_fitting_subtree(PAIR, amount)
    assert (height == 0) == (not queues[0].borrowing_with(PAIR, amount))
    assert height <= cohorts[0].height()
    if height == cohorts[0].height() > 0 and queues[0].parent is cohorts[0]:
        assert not more_above


def test_only_usage_beyond_the_lending_limit_counts_above() -> None:
    root, queue = CohortNode("root"), QueueNode("queue")
    root.queues["queue"], queue.parent = queue, root
    queue.quotas = {PAIR: Quota(10, None, 4)}
    update_tree(root)
    assert root.subtree[PAIR] == 4
    queue.add_usage(PAIR, 8)
    assert root.usage.get(PAIR, 0) == 2
