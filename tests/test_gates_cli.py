"""Fix gates on the command line."""

from __future__ import annotations

import json

import pytest

from controlplane.gates import CATALOGUE
from tests.cli.test_run import controlplane


def test_all_gates_are_listed_as_a_release_had_them():
    now = json.loads(controlplane("race", "gates", "--format", "json").stdout)
    assert {gate["number"] for gate in now} == set(CATALOGUE)
    assert all(gate["form"] == gate["default"] for gate in now)
    then = json.loads(controlplane("race", "gates", "--release", "1.33", "--format", "json").stdout)
    forms = {gate["number"]: gate["form"] for gate in then}
    assert (forms["138324"], forms["134730"], forms["127016"]) == ("off", "off", "merged")
    table = controlplane("race", "gates").stdout
    assert "134157" in table
    assert "proposed" in table


@pytest.mark.slow
def test_a_fix_to_come_can_be_put_in_force_and_is_told_of():
    told = controlplane("race", "explore", "138324", "--schedules", "1", "--fix", "141255").stdout
    assert "138324: early-return, 141255: proposed" in told
    plain = controlplane("race", "explore", "138324", "--schedules", "1").stdout
    assert "(138324: early-return;" in plain


def test_an_unknown_gate_is_one_line_and_status_2():
    for arguments in (["--fix", "7"], ["--fix", "141255=magic"], ["--without-fix", "7"]):
        done = controlplane("race", "explore", "138324", *arguments)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
