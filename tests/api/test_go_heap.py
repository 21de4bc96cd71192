from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.go_heap import Heap
from controlplane.scheduler.framework.node_search import NodeHeap, best_index

entries = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=40)


def make(items):
    heap = Heap(lambda item: str(item[0]), lambda a, b: a[1] < b[1])
    for item in items:
        heap.push(item)
    return heap


@given(entries)
def test_entries_leave_in_order_and_each_key_once(items):
    heap = make(items)
    latest = {str(key): (key, rank) for key, rank in items}
    out = [heap.pop() for _ in range(len(heap))]
    assert [rank for _, rank in out] == sorted(rank for _, rank in latest.values())
    assert sorted(out) == sorted(latest.values())
    assert heap.pop() is None


@given(entries, st.integers(0, 30))
def test_removing_a_key_keeps_the_order_of_the_others(items, key):
    heap = make(items)
    present = str(key) in heap
    removed = heap.remove(str(key))
    assert (removed is not None) == present
    ranks = [rank for _, rank in heap.sorted()]
    assert ranks == sorted(ranks)
    assert str(key) not in heap


def test_looking_at_the_order_changes_nothing():
    heap = make([(3, 3), (1, 1), (2, 2)])
    layout = list(heap)
    assert [key for key, _ in heap.sorted()] == [1, 2, 3]
    assert list(heap) == layout
    assert heap.peek() == (1, 1)


def test_equal_entries_leave_as_gos_heap_lets_them():
    heap = make([(i, 0) for i in range(6)])
    assert [heap.pop()[0] for _ in range(6)] == [0, 5, 4, 3, 2, 1]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300))
def test_the_best_index_is_the_root_of_the_heap(totals):
    heap = NodeHeap([str(i) for i in range(len(totals))], totals)
    assert heap.pop() == str(best_index(totals))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_the_node_heap_gives_scores_from_high_to_low(totals):
    heap = NodeHeap([str(i) for i in range(len(totals))], totals)
    scores = [totals[int(heap.pop())] for _ in range(len(totals))]
    assert scores == sorted(totals, reverse=True)
