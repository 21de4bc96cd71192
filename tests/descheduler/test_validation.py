"""Errors of policies."""

from __future__ import annotations

import pytest

from controlplane.descheduler.validation import PolicyError, check_policy


def profile(name: str, args: object) -> dict[str, object]:
    return {"name": "p1", "pluginConfig": [{"name": name, "args": args}]}


def test_a_plugin_that_is_not_known_is_named() -> None:
    with pytest.raises(PolicyError, match=r"^in profile p1: plugin Sweep in pluginConfig not reg"):
        check_policy({"profiles": [profile("Sweep", {})]})


def test_errors_of_several_plugins_are_joined() -> None:
    first = profile("RemovePodsViolatingNodeAffinity", {})
    second = profile("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 0})
    with pytest.raises(PolicyError) as caught:
        check_policy({"profiles": [first, second]})
    assert str(caught.value) == (
        "[in profile p1: nodeAffinityType needs to be set, "
        "in profile p1: invalid PodsHavingTooManyRestarts threshold]"
    )


def test_a_valid_profile_passes() -> None:
    check_policy(
        {"profiles": [profile("RemovePodsViolatingNodeTaints", {"excludedTaints": ["a"]})]}
    )
