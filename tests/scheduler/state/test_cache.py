import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.gates import FixGates
from controlplane.scheduler.state.cache import Cache, CacheCorruptedError, CacheError
from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.scheduler.state.resources import Resource
from controlplane.scheduler.state.snapshot import ChangeReader, Snapshot
from tests.scheduler.make import node, pod


def filled(*names):
    cache, snapshot = Cache(), Snapshot()
    for name in names:
        cache.add_node(node(name))
    cache.update_snapshot(snapshot)
    return cache, snapshot


def test_an_assumed_pod_counts_until_it_is_forgotten():
    cache, snapshot = filled("n")
    each = pod("p", node="n", cpu="2")
    cache.assume_pod(PodInfo(each))
    assert cache.is_assumed_pod(each)
    cache.update_snapshot(snapshot)
    assert snapshot.get("n").requested.milli_cpu == 2000
    cache.forget_pod(each)
    cache.forget_pod(each)
    cache.update_snapshot(snapshot)
    assert snapshot.get("n").requested == Resource()


def test_the_informer_confirms_an_assumption_even_on_another_node():
    cache, snapshot = filled("a", "b")
    cache.assume_pod(PodInfo(pod("p", node="a")))
    cache.add_pod(pod("p", node="b"))
    cache.update_snapshot(snapshot)
    assert [len(info.pods) for info in snapshot.node_info_list] == [0, 1]
    assert cache.assumed_count == 0


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (lambda c, p: c.assume_pod(PodInfo(p)), "is in the cache, so can't be assumed"),
        (lambda c, p: c.add_pod(p), "was already in added state"),
        (lambda c, p: c.forget_pod(p), "wasn't assumed so cannot be forgotten"),
        (lambda c, _: c.remove_pod(pod("q", node="n")), "is not found in scheduler cache"),
        (lambda c, _: c.update_pod(pod("q"), pod("q")), "is not added to scheduler cache"),
        (lambda c, _: c.forget_pod(pod("p", node="m")), "was assumed on m but assigned to n"),
    ],
)
def test_calls_that_do_not_fit_the_state_are_refused(action, text):
    cache, _ = filled("n")
    each = pod("p", node="n")
    cache.add_pod(each)
    with pytest.raises(CacheError, match=text):
        action(cache, each)


def test_a_pod_that_changed_its_node_is_a_corruption():
    cache, _ = filled("a", "b")
    each = pod("p", node="a")
    cache.add_pod(each)
    with pytest.raises(CacheCorruptedError):
        cache.update_pod(each, pod("p", node="b"))
    with pytest.raises(CacheCorruptedError):
        cache.remove_pod(pod("p", node="b"))
    cache.remove_pod(pod("p"))
    assert cache.pod_count == 0


def test_a_node_with_pods_stays_as_a_ghost_outside_the_snapshot():
    cache, snapshot = filled("a", "b")
    cache.add_pod(pod("p", node="a"))
    cache.remove_node(node("a"))
    cache.update_snapshot(snapshot)
    assert [info.name for info in snapshot.node_info_list] == ["b"]
    cache.add_node(node("a"))
    cache.update_snapshot(snapshot)
    assert [(info.name, len(info.pods)) for info in snapshot.node_info_list] == [("b", 0), ("a", 1)]
    cache.remove_node(node("a"))
    cache.remove_pod(pod("p", node="a"))
    assert list(cache.nodes) == ["b"]
    with pytest.raises(CacheError, match="node x is not found"):
        cache.remove_node(node("x"))


def test_the_snapshot_does_not_see_later_changes():
    cache, snapshot = filled("n")
    cache.add_pod(pod("p", node="n"))
    assert snapshot.get("n").pods == []
    generation = snapshot.generation
    cache.update_snapshot(snapshot)
    assert len(snapshot.get("n").pods) == 1
    assert snapshot.generation > generation


def test_only_changed_nodes_are_refreshed():
    cache, snapshot = filled("a", "b", "c")
    cache.add_pod(pod("p", node="b"))
    cache.add_pod(pod("q", node="b"))
    before = len(snapshot.changed_rows)
    cache.update_snapshot(snapshot)
    assert snapshot.changed_rows[before:] == [1]


def test_zones_take_turns_and_a_zone_change_does_not_reorder_the_list():
    cache, snapshot = Cache(), Snapshot()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("x", "")):
        cache.add_node(node(name, zone=zone))
    cache.update_snapshot(snapshot)
    assert list(snapshot.row_of) == ["a1", "b1", "x", "a2"]
    cache.update_node(node("a1", zone="a"), node("a1", zone="b"))
    cache.update_snapshot(snapshot)
    assert list(snapshot.row_of) == ["a1", "b1", "x", "a2"]
    cache.add_node(node("c", zone="c"))
    cache.update_snapshot(snapshot)
    assert list(snapshot.row_of) == ["a2", "b1", "x", "c", "a1"]


def test_an_image_has_the_size_its_first_node_said():
    images = lambda size: [{"names": ["i:1"], "sizeBytes": size}]  # noqa: E731
    cache, snapshot = Cache(), Snapshot()
    cache.add_node(node("a", images=images(100)))
    cache.add_node(node("b", images=images(200)))
    cache.update_snapshot(snapshot)
    assert snapshot.get("b").image_states == {"i:1": (100, 2)}
    cache.remove_node(node("a"))
    cache.update_node(node("b"), node("b", images=images(300)))
    cache.update_snapshot(snapshot)
    assert snapshot.get("b").image_states == {"i:1": (300, 1)}


def test_claims_in_use_are_counted_over_all_nodes():
    cache, snapshot = filled("a", "b")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    for name in ("a", "b"):
        cache.add_pod(pod(f"p-{name}", node=name, volumes=volumes))
    cache.update_snapshot(snapshot)
    assert snapshot.used_pvcs == {"default/c": 2}
    cache.remove_pod(pod("p-a", node="a"))
    cache.remove_node(node("b"))
    cache.update_snapshot(snapshot)
    assert snapshot.used_pvcs == {}


class Plain(Cache):
    """Takes every confirmed or updated pod out and counts it in again, as upstream does."""

    def _replaced(self, known, pod):
        return False


DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


def container_status(cpu="100m", allocated="100m"):
    status = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"containerStatuses": [{**status, "allocatedResources": {"cpu": allocated}}]}


NEWER = (
    {"phase": "Pending"},
    {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    {"phase": "Running"},
    {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]},
    {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **container_status()},
    container_status(cpu="0.1"),
    container_status(cpu="200m"),
    container_status(allocated="3"),
    {**container_status(cpu="50m"), "conditions": [PENDING]},
    {**container_status(), "conditions": [PENDING]},
    {**container_status(cpu="50m", allocated="50m"), "conditions": [DEFERRED]},
)
LABELS = ({}, {"app": "a"}, {"app": "b"})
DONE = ("assume", "add", "update", "remove", "snapshot", "node")
moves = st.lists(
    st.tuples(
        st.sampled_from(DONE), st.integers(0, 5), st.sampled_from(NEWER), st.sampled_from(LABELS)
    ),
    max_size=60,
)


def contents(snapshot):
    return [
        (
            info.name,
            [(each.pod.tree, each.has_affinity) for each in info.pods],
            [each.pod.name for each in info.pods_with_affinity],
            (info.requested, info.non_zero_cpu, info.non_zero_memory),
            info.image_states,
        )
        for info in snapshot.node_info_list
    ]


@example(
    [
        ("add", 0, NEWER[0], {}),
        ("update", 0, NEWER[0], {}),
        ("update", 0, container_status(cpu="3", allocated="3"), {}),
        ("update", 0, container_status(allocated="3"), {}),
    ],
    {"129532": None},
)
@given(moves, st.sampled_from(({}, {}, {"129532": None}, {"135107": "as-promised"})))
def test_a_pod_that_counts_as_before_is_replaced_as_if_it_were_counted_again(operations, fixes):
    caches = (Cache(FixGates(fixes)), Plain(FixGates(fixes)))
    snapshots = (Snapshot(), Snapshot())
    reader, known = ChangeReader(), {}
    affinity = {"podAffinity": {}}
    for what, i, status, labels in (("node", 0, {}, {}), ("node", 1, {}, {}), *operations):
        each = pod(
            f"p{i}",
            node=f"n{i % 2}",
            affinity=affinity if i % 3 else {},
            status=status,
            labels=labels,
        )
        for cache, snapshot in zip(caches, snapshots, strict=True):
            if what == "node":
                images = [{"names": [f"image-{i}"], "sizeBytes": 1}]
                cache.add_node(node(f"n{i % 2}", images=images))
            elif what == "assume" and cache.get_pod(each.uid) is None:
                cache.assume_pod(PodInfo(each))
            elif what == "add" and (cache.get_pod(each.uid) is None or cache.is_assumed_pod(each)):
                cache.add_pod(each)
            elif what == "update" and cache.get_pod(each.uid) and not cache.is_assumed_pod(each):
                cache.update_pod(each, each)
            elif what == "remove" and cache.get_pod(each.uid):
                cache.remove_pod(each)
            elif what == "snapshot":
                cache.update_snapshot(snapshot)
        if what == "snapshot":
            now = [seen_by_plugins(info) for info in snapshots[0].node_info_list]
            rows = reader.changed(snapshots[0])
            changed = range(len(now)) if rows is None else rows
            assert all(now[row] == known[row] for row in range(len(now)) if row not in changed)
            known = dict(enumerate(now))
    for cache, snapshot in zip(caches, snapshots, strict=True):
        cache.update_snapshot(snapshot)
    assert contents(snapshots[0]) == contents(snapshots[1])
    assert caches[0].uids() == caches[1].uids()


def seen_by_plugins(info):
    """What a plugin may go by when it is asked about a node."""
    pods = sorted((each.pod.uid, str(each.pod.labels), str(each.pod.spec)) for each in info.pods)
    return pods, info.requested.clone(), info.image_states, info.node


def test_the_row_of_a_node_does_not_change_with_what_binding_and_kubelet_bring():
    cache, snapshot = filled("n")
    cache.assume_pod(PodInfo(pod("p", node="n")))
    cache.update_snapshot(snapshot)
    reader = ChangeReader()
    reader.changed(snapshot)
    bound = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    cache.add_pod(pod("p", node="n", status=bound, resourceVersion="7"))
    cache.update_snapshot(snapshot)
    assert reader.changed(snapshot) == []
    assert snapshot.get("n").pods[0].pod.resource_version == "7"
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    cache.update_pod(pod("p", node="n"), pod("p", node="n", status=running | container_status()))
    cache.update_snapshot(snapshot)
    assert reader.changed(snapshot) == []
    assert snapshot.get("n").pods[0].pod.status.phase == "Running"
    grown = pod("p", node="n", status=container_status(cpu="200m"))
    cache.update_pod(pod("p", node="n"), grown)
    cache.update_snapshot(snapshot)
    assert reader.changed(snapshot) == [0]
    cache.update_pod(grown, pod("p", node="n", labels={"app": "a"}))
    cache.update_snapshot(snapshot)
    assert reader.changed(snapshot) == [0]


ops = st.lists(
    st.tuples(st.sampled_from(("add", "remove", "node+", "node-")), st.integers(0, 5)), max_size=40
)


@given(ops)
def test_the_snapshot_always_equals_one_made_afresh(operations):
    cache, snapshot = Cache(), Snapshot()
    pods, nodes = {}, {}
    anti = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]
        }
    }
    for what, i in operations:
        name = f"n{i % 3}"
        if what == "add" and i not in pods:
            pods[i] = pod(f"p{i}", node=name, affinity=anti if i % 2 else {})
            cache.add_pod(pods[i])
        elif what == "remove" and i in pods:
            cache.remove_pod(pods.pop(i))
        elif what == "node+" and name not in nodes:
            nodes[name] = node(name, zone="ab"[i % 2])
            cache.add_node(nodes[name])
        elif what == "node-" and name in nodes:
            cache.remove_node(nodes.pop(name))
        cache.update_snapshot(snapshot)
    fresh = Snapshot()
    cache.update_snapshot(fresh)

    def seen(each):
        return [
            (info.name, [p.pod.name for p in info.pods], info.requested)
            for info in each.node_info_list
        ]

    assert sorted(map(str, seen(snapshot))) == sorted(map(str, seen(fresh)))
    names = lambda each: sorted(n.name for n in each.have_pods_with_required_anti_affinity)  # noqa: E731
    assert names(snapshot) == names(fresh)
    for info in snapshot.node_info_list:
        total = sum(p.resource.resource.milli_cpu for p in info.pods)
        assert info.requested.milli_cpu == total
