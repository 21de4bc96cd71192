"""Configurations of clusters."""

from __future__ import annotations

from controlplane.scenarios.authoring.scheduler_plugins import Hold, RefuseLabelled
from controlplane.scenarios.authoring.worlds import with_plugins


def test_plugins_are_configured_once_for_all_schedules() -> None:
    first, again = with_plugins(Hold), with_plugins(Hold)
    assert first["scheduler"] is again["scheduler"]
    assert [*first["scheduler_plugins"]].count(Hold.name) == 1
    other = with_plugins(Hold, RefuseLabelled)
    assert RefuseLabelled.name in other["scheduler_plugins"]
    assert RefuseLabelled.name not in first["scheduler_plugins"]
