"""A node's sums and lists over its pods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.pod import Pod
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.pod_info import PodInfo


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "copy"]), st.integers(0, 999)), max_size=40
    )
)
def test_following_a_node_gives_what_copying_it_gives(changes):
    node, follower = NodeInfo(), NodeInfo()
    number = 0
    for _ in range(80):
        node.add_pod(PodInfo(pod(number)))
        number += 1
    for what, which in changes:
        if what == "add":
            node.add_pod(PodInfo(pod(number)))
            number += 1
        elif what == "remove":
            node.remove_pod(node.pods[which % len(node.pods)].pod)
        else:
            follower.follow(node)
            same(follower, node)
    follower.follow(node)
    same(follower, node)


def pod(number):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}
    if number % 3 == 0:
        term = {"topologyKey": "zone", "labelSelector": {}}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": required}
    return Pod.from_tree({"metadata": {"name": f"p{number}", "uid": f"u{number}"}, "spec": spec})


def same(follower, node):
    copy = node.clone()
    for name in ("pods", "pods_with_affinity", "pods_with_required_anti_affinity", "requested"):
        assert getattr(follower, name) == getattr(copy, name)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "replace"]), st.integers(0, 999)), max_size=60
    )
)
def test_a_pod_is_found_among_many_where_the_plain_way_finds_it(changes):
    node, plain = NodeInfo(), []
    for number in range(80):
        node.add_pod(PodInfo(pod(number)))
        plain.append(node.pods[-1].pod)
    for what, which in changes:
        one = plain[which % len(plain)]
        if what != "add":
            at = plain.index(one)
            plain[at] = plain[-1]
            plain.pop()
        if what == "remove":
            node.remove_pod(one)
        elif what == "replace":
            node.replace_pod(PodInfo(one))
            plain.append(one)
        else:
            number += 1
            node.add_pod(PodInfo(pod(number)))
            plain.append(node.pods[-1].pod)
        assert [info.pod for info in node.pods] == plain
