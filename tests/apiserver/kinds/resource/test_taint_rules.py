from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.registry import kind_of
from controlplane.apiserver.kinds.strategy import Context

KIND = kind_of("resource.k8s.io", "devicetaintrules")
EARLIER = "1970-01-01T00:00:00Z"


def context(now: int = 0) -> Context:
    found = Context.__new__(Context)
    found.now = now
    return found


def rule(effect: str = "NoExecute", **taint: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"taint": {"key": "a.io/x", "effect": effect, **taint}}}


def test_a_taint_begins_now_and_anew_when_its_effect_changes() -> None:
    made = KIND.strategy.prepare_create(context(), rule())
    assert made["spec"]["taint"]["timeAdded"] == EARLIER
    assert made["metadata"]["generation"] == 1
    later = context(60 * 10**9)
    same = KIND.strategy.prepare_update(later, rule(timeAdded=EARLIER, value="v"), made)
    assert same["spec"]["taint"]["timeAdded"] == EARLIER
    other = KIND.strategy.prepare_update(later, rule("None", timeAdded=EARLIER), made)
    assert other["spec"]["taint"]["timeAdded"] == "1970-01-01T00:01:00Z"
    assert other["metadata"]["generation"] == 2


def test_selector_and_taint_of_a_rule_are_validated() -> None:
    spec = {
        "deviceSelector": {"driver": "", "pool": "A", "device": "x/y"},
        "taint": {"key": "", "effect": "Odd"},
    }
    fields = [error.field for error in KIND.strategy.validate(context(), {"spec": spec})]
    assert list(dict.fromkeys(fields)) == [
        "spec.deviceSelector.driver",
        "spec.deviceSelector.pool",
        "spec.deviceSelector.device",
        "spec.taint.key",
        "spec.taint.effect",
    ]


def test_an_effect_that_stays_is_not_validated_again() -> None:
    assert KIND.strategy.validate_update(context(), rule("Odd"), rule("Odd")) == []
    (error,) = KIND.strategy.validate_update(context(), rule("Odd"), rule())
    assert error.field == "spec.taint.effect"


def test_status_has_at_most_eight_conditions() -> None:
    condition = {"status": "True", "reason": "R", "lastTransitionTime": EARLIER, "message": ""}
    listed = [{**condition, "type": f"T{index}"} for index in range(9)]
    new = {**rule(), "status": {"conditions": listed}}
    (error,) = KIND.strategy.validate_status_update(context(), new, rule())
    assert str(error) == "status.conditions: Too many: 9: must have at most 8 items"


def test_columns_of_a_rule() -> None:
    assert KIND.row is not None
    tree = rule(timeAdded="1970-01-01T00:00:10Z", value="v")
    tree["metadata"] = {"name": "r", "creationTimestamp": EARLIER}
    assert KIND.row(tree, 40 * 10**9) == ["r", "a.io/x", "v", "NoExecute", "30s", "40s"]
