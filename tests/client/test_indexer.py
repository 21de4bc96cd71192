from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.client.indexer import Indexer
from tests.client.objects import obj

NAMES = st.sampled_from("abcd")
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("xyz"))
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, LABELS),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("replace"), st.lists(st.tuples(NAMES, LABELS), max_size=4)),
    )
)


def by_label(found):
    return tuple(found.metadata["labels"].values())


@pytest.mark.slow
@given(CHANGES)
def test_an_index_equals_a_search_through_everything(changes):
    indexer = Indexer(label=by_label)
    expected = {}
    for number, change in enumerate(changes):
        if change[0] == "put":
            made = obj(change[1], number, **change[2])
            assert indexer.put(made) is expected.get(made.key)
            expected[made.key] = made
        elif change[0] == "remove":
            key = f"default/{change[1]}"
            assert indexer.remove(key) is expected.pop(key, None)
        else:
            made = [obj(name, number, **labels) for name, labels in change[1]]
            indexer.replace(made)
            expected = {each.key: each for each in made}
        assert {each.key: each for each in indexer} == expected
        for value in "xyz":
            found = indexer.by_index("label", value)
            assert len(found) == len(set(found))
            assert set(found) == {each for each in expected.values() if value in by_label(each)}


def test_reads_by_key():
    indexer = Indexer()
    made = obj("a")
    indexer.put(made)
    assert indexer.get("default/a") is made
    assert indexer.get("default/b") is None
    assert "default/a" in indexer
    assert indexer.keys() == ["default/a"]
    assert len(indexer) == 1
