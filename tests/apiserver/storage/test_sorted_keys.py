"""Keys in order, however many come between two looks at them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.storage import sorted_keys
from controlplane.apiserver.storage.sorted_keys import SortedKeys

KEYS = st.text("ab/", min_size=1, max_size=4)
STEPS = st.lists(st.tuples(KEYS, st.sampled_from(["add", "remove", "look"])), max_size=60)


@given(STEPS, KEYS | st.just(""), KEYS | st.just(""), st.integers(0, 3))
def test_keys_are_what_a_sorted_set_holds(steps, prefix, since, few) -> None:
    plain = sorted_keys.FEW
    sorted_keys.FEW = few  # type: ignore[misc]
    try:
        keys, wanted = SortedKeys(["b"]), {"b"}
        for key, what in steps:
            if what == "look":
                assert keys.listed() == sorted(wanted)
            elif what == "add" and key not in wanted:
                keys.add(key)
                wanted.add(key)
            elif what == "remove" and key in wanted:
                keys.remove(key)
                wanted.remove(key)
        first, end = keys.span(prefix, since)
        found = keys.listed()[first:end]
        assert found == [key for key in sorted(wanted) if key.startswith(prefix) and key >= since]
    finally:
        sorted_keys.FEW = plain  # type: ignore[misc]


def test_a_fork_goes_its_own_way() -> None:
    keys = SortedKeys(["a"])
    keys.add("c")
    fork = keys.fork()
    fork.add("b")
    keys.remove("a")
    assert (keys.listed(), fork.listed()) == (["c"], ["a", "b", "c"])
