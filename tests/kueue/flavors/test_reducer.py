from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.kueue.flavors.reducer import search_counts


def pod_sets(*bounds):
    return [{"count": count, "minCount": least} for count, least in bounds]


@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 40))
def test_the_largest_fitting_count_is_found(count, shrink, room) -> None:
    least = max(1, count - shrink)
    found = search_counts(
        pod_sets((count, least)), lambda counts: counts[0] if counts[0] <= room else None
    )
    possible = [each for each in range(least, count + 1) if each <= room]
    expected = max(possible, default=None) if least < count else None
    assert found == expected


def test_all_pod_sets_shrink_in_step() -> None:
    tried = []
    search_counts(pod_sets((10, 5), (4, 2)), lambda counts: tried.append(list(counts)))
    assert [5, 2] in tried
    assert all(10 - first >= 2 * (4 - second) for first, second in tried)


def test_without_a_lower_minimum_nothing_is_tried() -> None:
    assert search_counts([{"count": 3}], lambda counts: counts) is None
