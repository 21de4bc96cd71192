from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.sharing import compact as module
from controlplane.sharing.compact import compact

keys = st.text("abc", max_size=2)
trees = st.dictionaries(keys, st.integers(), max_size=25)
changes = st.lists(st.tuples(keys, st.none() | st.integers()))


@given(trees, changes)
def test_it_is_a_dictionary_like_any_other(tree, changes):
    made, plain = compact(tree), dict(tree)
    assert list(made.items()) == list(plain.items())
    twin = compact(tree)
    for key, value in changes:
        for each in (made, plain):
            if value is None:
                each.pop(key, None)
            else:
                each[key] = value
        assert list(made.items()) == list(plain.items())
        assert list(made.copy().items()) == list({**made}.items()) == list(plain.items())
    assert list(twin.items()) == list(tree.items())
    assert list(compact(tree).items()) == list(tree.items())


@pytest.mark.parametrize("count", [1, 5, 11, 20])
def test_it_takes_less_than_two_thirds_of_the_memory(count):
    tree = {f"key{number}": number for number in range(count)}
    size = sys.getsizeof(compact(tree))
    assert size < sys.getsizeof(tree) * 2 / 3
    compact(tree)["another"] = 1
    assert sys.getsizeof(compact(tree)) == size


@pytest.mark.parametrize("tree", [{}, {f"key{number}": number for number in range(21)}])
def test_where_there_is_nothing_to_share_the_tree_stays(tree):
    assert compact(tree) is tree


def test_no_more_than_so_many_sets_of_keys_are_known(monkeypatch):
    monkeypatch.setattr(module, "_known", {})
    monkeypatch.setattr(module, "KEPT", 2)
    made = [compact({f"key{number}": 1}) for number in range(9)]
    assert made == [{f"key{number}": 1} for number in range(9)]
    assert len(module._known) == 2
