"""Fix gates: releases, switches, variants."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.gates import CATALOGUE, fix_gates, from_header


def test_everything_is_fixed_as_merged_by_default():
    gates = fix_gates()
    assert all(gates.variant(number) == gate.variants[0] for number, gate in CATALOGUE.items())


def test_an_older_release_has_the_bugs_of_its_time():
    assert not fix_gates("1.33").fixed("138324")
    assert fix_gates("1.34").fixed("138324")


def test_a_gate_can_be_turned_off_or_given_another_form():
    assert fix_gates(without=("138324",)).variant("138324") is None
    assert fix_gates(variants=("138324=uid-threading",)).variant("138324") == "uid-threading"


@pytest.mark.parametrize(
    "wrong",
    [
        {"release": "soon"},
        {"without": ("7",)},
        {"variants": ("138324=no",)},
        {"variants": ("7=x",)},
    ],
)
def test_wrong_gates_are_refused(wrong):
    with pytest.raises(UsageError):
        fix_gates(**wrong)


def test_gates_come_back_from_a_header():
    for gates in (
        fix_gates(),
        fix_gates(without=("138324",)),
        fix_gates(variants=("138324=uid-threading",)),
    ):
        assert from_header(gates.to_header()).to_header() == gates.to_header()
