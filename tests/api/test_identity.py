"""Draws from serial numbers."""

from __future__ import annotations

from controlplane.api.identity import share


def test_shares_are_spread_evenly_and_the_same_each_time():
    found = [share(serial) for serial in range(10_000)]
    assert all(0 <= each < 1 for each in found)
    assert 160 <= sum(each < 0.02 for each in found) <= 240
    assert found[7] == share(7)
    assert len(set(found)) == len(found)
