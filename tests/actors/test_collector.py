"""The garbage collector during searches."""

from __future__ import annotations

import gc

import pytest

from actors import collector


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("thresholds")
def test_during_a_search_it_looks_seldom_and_afterwards_as_before():
    gc.set_threshold(701, 11, 12)
    with collector.frozen():
        assert gc.get_threshold() == (collector.YOUNG_OF_SHORT_RUNS, 11, 12)
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (701, 11, 12)


@pytest.mark.usefixtures("thresholds")
def test_whoever_has_it_look_more_seldom_still_or_never_keeps_that():
    for young in (10 * collector.YOUNG_OF_SHORT_RUNS, 0):
        gc.set_threshold(young, 10, 10)
        with collector.frozen():
            assert gc.get_threshold()[0] == young


@pytest.mark.usefixtures("thresholds")
def test_while_it_is_off_it_does_not_look_and_afterwards_it_does():
    with collector.off():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
