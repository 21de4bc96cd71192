from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.kubelet.cm.cpuset import CPUSet, CPUSetError, union

cpus = st.one_of(st.integers(0, 300), st.integers(4000, 5000), st.integers(-3, 1 << 62))
lists = st.lists(cpus, max_size=40)


@given(lists, lists)
def test_operations_are_those_of_sets(a: list[int], b: list[int]) -> None:
    one, two = CPUSet.of(a), CPUSet.of(b)
    assert (one | two).to_list() == sorted({*a, *b})
    assert (one & two).to_list() == sorted({*a} & {*b})
    assert (one - two).to_list() == sorted({*a} - {*b})
    assert (one <= two) == ({*a} <= {*b})
    assert (one == two) == ({*a} == {*b})
    assert len(one) == len({*a})
    assert bool(one) == bool(a)
    assert all(cpu in one for cpu in a)
    assert union([one, two]) == one | two


@given(st.lists(st.integers(0, 5000), max_size=40))
def test_the_notation_reads_back(a: list[int]) -> None:
    cpus = CPUSet.of(a)
    assert CPUSet.parse(str(cpus)) == cpus
    assert hash(CPUSet.parse(str(cpus))) == hash(cpus)


def test_runs_are_merged() -> None:
    assert str(CPUSet.of([5, 0, 1, 2, 4098, 4097])) == "0-2,5,4097-4098"


@pytest.mark.parametrize("text", ["1-0", "a", "1,,2", "1_0", "0-99999999999"])
def test_a_text_that_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        CPUSet.parse(text)


def test_a_range_that_would_fill_the_memory_is_refused_by_name() -> None:
    with pytest.raises(CPUSetError, match='invalid range "0-99999999999"'):
        CPUSet.parse("0-99999999999")
