"""Pages of a keyspace: the keys of a time in order, from any key on, as a filter over all of them would give them."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.object import Object
from controlplane.apiserver.storage.store import CompactedError, Store
from controlplane.apiserver.storage.watch_cache import WatchCache

NAMES = st.sampled_from(["", "a", "a/b", "ab", "b/", "b/a", "b/b", "c"])
WRITES = st.lists(st.tuples(NAMES.filter(bool), st.booleans()), max_size=30)


def written(writes: list[tuple[str, bool]]) -> tuple[Store, list[dict[str, Object]]]:
    """A store after these writes, and what it held after each of its revisions."""
    store = Store()
    space = store.keyspace("/x/")
    state: dict[str, Object] = {}
    history = [state] * (store.revision + 1)
    for number, (key, lives) in enumerate(writes):
        obj = Object({"metadata": {"name": str(number)}})
        done = space.put(key, obj) if lives else space.delete(key)
        if done is None:
            continue
        state = {each: held for each, held in state.items() if each != key}
        if lives:
            state[key] = obj
        while len(history) <= done:
            history.append(history[-1])
        history[done] = state
    return store, history


@given(WRITES, NAMES, NAMES, st.integers(0, 4), st.data())
def test_a_page_is_what_a_filter_over_all_keys_gives(writes, prefix, since, most, data) -> None:
    store, history = written(writes)
    revision = data.draw(st.integers(1, store.revision))
    revision = data.draw(st.sampled_from([0, revision]))
    found, left = store.keyspace("/x/").page(prefix, since, most, revision)
    state = history[revision or -1]
    wanted = [(key, state[key]) for key in sorted(state) if key.startswith(prefix) and key >= since]
    assert found == (wanted[:most] if most else wanted)
    assert left == len(wanted) - len(found)


@pytest.mark.slow
@given(WRITES, WRITES, st.lists(st.tuples(NAMES, NAMES, st.integers(1, 4)), max_size=12), st.data())
def test_pages_of_one_time_do_not_see_what_is_written_between_them(
    before, between, asked, data
) -> None:
    store, history = written(before)
    space = store.keyspace("/x/")
    last = len(history) - 1
    revisions = st.integers(max(1, last - 6), last)
    more = iter(between)
    for prefix, since, most in asked:
        for key, lives in islice(more, 3):
            _ = space.put(key, Object({})) if lives else space.delete(key)
        revision = data.draw(revisions)
        found, left = space.page(prefix, since, most, revision)
        state = history[revision]
        wanted = [
            (key, state[key]) for key in sorted(state) if key.startswith(prefix) and key >= since
        ]
        assert found == wanted[:most]
        assert left == len(wanted) - len(found)


def test_a_page_of_a_time_that_is_compacted_away_is_refused() -> None:
    store = Store()
    space = store.keyspace("/x/")
    space.put("a", Object({}))
    begun = store.revision
    space.put("b", Object({}))
    assert space.page(most=1, revision=begun)[1] == 0
    store.compact(begun)
    assert [key for key, _ in space.page(most=1, revision=begun)[0]] == ["a"]
    store.compact(store.revision)
    with pytest.raises(CompactedError):
        space.page(most=1, revision=begun)


@given(WRITES, st.integers(0, 30), NAMES, NAMES, st.integers(0, 4))
def test_a_page_of_a_cache_is_what_a_filter_over_its_keys_gives(
    writes, before, prefix, since, most
) -> None:
    """The cache is asked once before the last of the writes, so that it keeps its keys in order."""
    store, _ = written(writes[:before])
    space = store.keyspace("/x/")
    cache = WatchCache(space)
    cache.page()
    for number, (key, lives) in enumerate(writes[before:]):
        obj = Object({"metadata": {"name": f"later-{number}"}})
        _ = space.put(key, obj) if lives else space.delete(key)
    cache.advance()
    found, left = cache.page(prefix, since, most)
    wanted = [(key, obj) for key, obj in space.items(prefix) if key >= since]
    assert found == (wanted[:most] if most else wanted)
    assert left == len(wanted) - len(found)
    assert dict(cache.items()) == cache.objects
