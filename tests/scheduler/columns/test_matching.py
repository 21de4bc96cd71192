"""Counts that are kept for many selectors equal a plain count, whatever happens to nodes and pods."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.labels import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Selector, requirement
from controlplane.scheduler.columns import columns as columns_module
from controlplane.scheduler.columns import matching
from controlplane.scheduler.columns.columns import Columns
from controlplane.scheduler.state import snapshot as snapshots
from controlplane.scheduler.state.cache import Cache
from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.scheduler.state.snapshot import Snapshot
from tests.scheduler.make import node, pod
from tests.scheduler.reference.counting import count_matching

WORDS = st.sampled_from(("a", "b"))
NODES = st.sampled_from(("m", "n", "o"))
REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: requirement(key, operator, sorted(values)),
        WORDS, st.sampled_from((IN, IN, NOT_IN)), st.sets(WORDS, min_size=1),
    ),
    st.builds(lambda key, operator: requirement(key, operator, ()), WORDS,
              st.sampled_from((EXISTS, DOES_NOT_EXIST))),
)  # fmt: skip
SELECTORS = st.builds(
    lambda requirements, nothing: Selector(() if nothing else requirements, nothing=nothing),
    st.lists(REQUIREMENTS, max_size=3),
    st.sampled_from((False, False, False, True)),
)
PODS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(("p", "q", "r", "s")),
        "namespace": WORDS,
        "labels": st.dictionaries(WORDS, WORDS),
        "deletionTimestamp": st.sampled_from((None, None, "2026-01-01T00:00:00Z")),
        "node": NODES,
        "phase": st.sampled_from(("Pending", "Running")),
    }
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NODES, WORDS),
        st.tuples(st.just("no node"), NODES, st.none()),
        st.tuples(st.just("pod"), PODS, st.booleans()),
        st.tuples(st.just("pod"), PODS, st.booleans()),
        st.tuples(st.just("no pod"), st.sampled_from(("p", "q", "r", "s")), st.none()),
        st.tuples(st.just("ask"), SELECTORS, WORDS),
        st.tuples(st.just("ask"), SELECTORS, WORDS),
    ),
    max_size=40,
)
ASKED = [(Selector([requirement("a", IN, ["b"])]), "a"), (Selector([requirement("b", EXISTS, [])]), "a")]  # fmt: skip


class Cluster:
    """A cache and its snapshot in columns, told of one change after the other."""

    def __init__(self):
        self.cache, self.snapshot = Cache(), Snapshot()
        self.columns = Columns(self.snapshot)
        self.nodes, self.pods = {}, {}

    def change(self, what, about, how):
        """One change; answers what is asked from now on."""
        if what == "node":
            new = node(about, zone=how)
            self.cache.update_node(self.nodes.get(about), new)
            self.nodes[about] = new
        elif what == "no node":
            old = self.nodes.pop(about, None)
            if old is not None:
                self.cache.remove_node(old)
        elif what == "pod":
            self._put(dict(about), assumed=how)
        elif what == "no pod":
            old = self.pods.pop(about, None)
            if old is not None:
                self._remove(old)

    def _put(self, given, *, assumed):
        old = self.pods.get(given["name"])
        phase = given.pop("phase")
        new = pod(**{key: value for key, value in given.items() if value is not None},
                  status={"phase": phase})  # fmt: skip
        same_node = old is not None and old.spec.node_name == new.spec.node_name
        if old is not None and self.cache.is_assumed_pod(old):
            self.cache.add_pod(new)
        elif same_node:
            self.cache.update_pod(old, new)
        else:
            if old is not None:
                self._remove(old)
            if assumed:
                self.cache.assume_pod(PodInfo(new))
            else:
                self.cache.add_pod(new)
        self.pods[given["name"]] = new

    def _remove(self, old):
        if self.cache.is_assumed_pod(old):
            self.cache.forget_pod(self.cache.get_pod(old.uid))
        else:
            self.cache.remove_pod(old)

    def check(self, asked):
        """Every count, and every sum per zone, is that of a plain count."""
        self.cache.update_snapshot(self.snapshot)
        self.columns.sync()
        zones = self.columns.topology("topology.kubernetes.io/zone")
        everywhere = np.ones(self.columns.size, np.bool_)
        for selector, namespace in asked:
            expected = [
                count_matching(info.pods, selector, namespace)
                for info in self.snapshot.node_info_list
            ]
            found = self.columns.matching(selector, namespace)
            assert found.amounts.tolist() == expected
            tally = self.columns.tally(
                (selector, namespace), zones, found.amounts, lambda: everywhere, found
            )
            sums = [0] * len(zones.index)
            for code, count in zip(zones.codes.tolist(), expected):
                sums[code] += count
            assert tally.sums.tolist() == sums[: len(tally.sums)]
            assert not any(sums[len(tally.sums) :])


@pytest.mark.slow
@given(CHANGES, st.booleans())
def test_kept_counts_are_plain_counts(changes, often):
    cluster, asked = Cluster(), list(ASKED)
    with (
        mock.patch.object(matching, "_KEPT", 3),
        mock.patch.object(matching, "_LOG_LIMIT", 2),
        mock.patch.object(snapshots, "_LOG_LIMIT", 12),
    ):
        for what, about, how in changes:
            if what == "ask":
                asked.append((about, how))
            else:
                cluster.change(what, about, how)
            if often or what == "ask":
                cluster.check(asked)
        cluster.check(asked)


def test_what_is_kept_of_kinds_ends_with_their_last_pod():
    cluster = Cluster()
    cluster.change("node", "n", "a")
    for turn in range(3):
        given_pod = {"name": "p", "namespace": "a", "labels": {"a": "b", "turn": str(turn)},
                     "node": "n", "phase": "Running"}  # fmt: skip
        cluster.change("pod", given_pod, False)
        cluster.check(ASKED)
        kept = cluster.columns._matching
        assert len(kept._present) == len(kept._kinds) == 1
    cluster.change("no pod", "p", None)
    cluster.check(ASKED)
    assert not kept._present
    assert not kept._kinds
    assert not any(kept._by_label["a"].values())


def test_the_log_of_an_unused_selector_does_not_grow():
    cluster = Cluster()
    cluster.change("node", "n", "a")
    cluster.check(ASKED)
    found = cluster.columns.matching(*ASKED[0])
    others = (Selector([requirement("c", IN, ["d"])]), "a")
    with mock.patch.object(matching, "_LOG_LIMIT", 3):
        for _ in range(5):
            given_pod = {"name": "p", "namespace": "a", "labels": {"a": "b"}, "node": "n",
                         "phase": "Running"}  # fmt: skip
            for what in (("pod", given_pod, False), ("no pod", "p", None)):
                cluster.change(*what)
                cluster.cache.update_snapshot(cluster.snapshot)
                cluster.columns.matching(*others)
                assert len(found.changed_rows) <= 3
    cluster.check(ASKED)


def test_very_many_topology_keys_are_forgotten_before_the_next_cycle():
    cluster = Cluster()
    cluster.check(list(ASKED))
    with mock.patch.object(columns_module, "_TOPOLOGIES", 3):
        for number in range(4):
            cluster.columns.topology(f"k{number}")
        before = cluster.columns.topology("k0")
        cluster.check(list(ASKED))
        assert cluster.columns.topology("k0") is not before
