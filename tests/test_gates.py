"""Fix gates: releases, switches, variants."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.gates import CATALOGUE, LATEST, FixGates, fix_gates, from_header, minor_of


def test_by_default_every_gate_is_as_the_latest_release_has_it():
    gates = fix_gates()
    for number, gate in CATALOGUE.items():
        released = gate.fixed_in and minor_of(gate.fixed_in) <= minor_of(LATEST)
        expected = gate.variants[0] if released or gate.closed else None
        assert gates.variant(number) == FixGates().variant(number) == expected
    assert gates.changed() == {}


def test_an_older_release_has_the_bugs_of_its_time():
    assert not fix_gates("1.33").fixed("138324")
    assert fix_gates("1.34").fixed("138324")


def test_a_release_from_before_a_bug_does_not_have_it():
    assert not fix_gates("1.34").fixed("134730")
    assert fix_gates("1.32").fixed("134730")


def test_a_release_has_the_form_of_its_time():
    forms = {release: fix_gates(release).variant("106412") for release in ("1.19", "1.22", "1.24")}
    assert forms == {"1.19": None, "1.22": "two-minutes", "1.24": "fifteen-minutes"}
    assert fix_gates("1.25").variant("106412") == "never"


def test_a_gate_can_be_turned_off_or_given_another_form():
    assert fix_gates(without=("138324",)).variant("138324") is None
    assert fix_gates(variants=("138324=uid-threading",)).variant("138324") == "uid-threading"
    assert fix_gates(without=("138324",)).changed() == {"138324": "off"}


@pytest.mark.parametrize("number", ["141255", "139162"], ids=["proposed", "younger"])
def test_a_fix_that_the_release_does_not_have_can_be_put_in_force(number):
    assert not fix_gates().fixed(number)
    assert fix_gates(variants=(number,)).variant(number) == CATALOGUE[number].variants[0]
    assert fix_gates("1.30", variants=("138324",)).variant("138324") == "early-return"


def test_a_proposed_fix_whose_bug_costs_every_run_is_in_force_until_it_is_turned_off():
    assert fix_gates().fixed("139884")
    assert not fix_gates(without=("139884",)).fixed("139884")


def test_the_catalogue_is_consistent():
    for number, gate in CATALOGUE.items():
        assert gate.number == number
        assert gate.variants
        assert gate.issue.isdigit() or (not gate.issue and not gate.fixed_in)
        if gate.fixed_in and gate.unfixed_from:
            assert minor_of(gate.unfixed_from) <= minor_of(gate.fixed_in)
        for since, variant in gate.earlier:
            assert variant in gate.variants
            assert minor_of(since) < minor_of(gate.fixed_in)


@pytest.mark.parametrize(
    "wrong",
    [
        {"release": "soon"},
        {"without": ("7",)},
        {"variants": ("138324=no",)},
        {"variants": ("138324=",)},
        {"variants": ("7=x",)},
        {"variants": ("7",)},
    ],
)
def test_wrong_gates_are_refused(wrong):
    with pytest.raises(UsageError):
        fix_gates(**wrong)


def test_gates_come_back_from_a_header():
    for gates in (
        fix_gates(),
        fix_gates("1.22"),
        fix_gates(without=("138324",)),
        fix_gates(variants=("138324=uid-threading", "141255")),
    ):
        assert from_header(gates.to_header()).to_header() == gates.to_header()
