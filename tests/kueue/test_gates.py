from __future__ import annotations

import pytest

from controlplane.kueue.gates import GateError, Gates


def test_defaults_are_those_of_version_0_20() -> None:
    gates = Gates()
    assert gates.enabled("FlavorFungibilityPreserveScanProgress")
    assert not gates.enabled("ConcurrentAdmission")


def test_changes_leave_other_gates_alone() -> None:
    gates = Gates({"PartialAdmission": False})
    assert gates.changes() == {"PartialAdmission": False}
    assert gates != Gates()
    assert Gates({"PartialAdmission": True}) == Gates()


@pytest.mark.parametrize(
    "ask", [lambda: Gates({"Nonsense": True}), lambda: Gates().enabled("Nonsense")]
)
def test_unknown_names_are_refused(ask) -> None:
    with pytest.raises(GateError, match=r"feature gate 'Nonsense': not a gate of Kueue 0\.20"):
        ask()
