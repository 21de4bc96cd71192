"""Expressions that select devices."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule
from controlplane.apiserver.kinds.custom.cel.metering import Meter
from controlplane.apiserver.kinds.resource.device_expressions import CompileError, device_selector

DEVICE: dict[str, Any] = {
    "name": "laser-0",
    "attributes": {
        "colour": {"string": "red"},
        "watts": {"int": 40},
        "firmware": {"version": "2.3.1"},
        "shop.example.org/row": {"int": 7},
    },
    "capacity": {"beam": {"value": "2Ki"}},
}


def matches(source: str, device: dict[str, Any] = DEVICE, lists: bool = False) -> bool:
    return device_selector(source, lists).matches("laser.example.org", device)


@pytest.mark.parametrize(
    "source",
    [
        'device.driver == "laser.example.org"',
        'device.attributes["laser.example.org"].colour == "red"',
        'device.attributes["shop.example.org"].row == 7',
        'device.attributes["laser.example.org"].firmware.isGreaterThan(semver("2.3.0"))',
        'device.capacity["laser.example.org"].beam == quantity("2048")',
        "!device.allowMultipleAllocations",
        'cel.bind(a, device.attributes["laser.example.org"], a.watts > 30 && a.colour != "blue")',
    ],
)
def test_a_device_shows_its_driver_attributes_and_capacity(source: str) -> None:
    assert matches(source)


def test_an_unknown_domain_is_an_empty_map_that_is_not_counted() -> None:
    assert matches('size(device.attributes["other.example.org"]) == 0')
    assert matches('!("other.example.org" in device.attributes)')
    assert matches("size(device.attributes) == 2")


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(CelError, match="no such key: weight"):
        matches('device.attributes["laser.example.org"].weight > 1')


def test_an_attribute_without_a_known_value_fails_every_expression() -> None:
    device = {"attributes": {"lanes": {"ints": [1, 2]}}}
    with pytest.raises(CelError, match="attribute lanes: unsupported attribute value"):
        matches("true", device)
    assert matches('device.attributes["laser.example.org"].lanes.includes(2)', device, lists=True)
    assert matches(
        'device.attributes["laser.example.org"].lanes.exists(l, l > 1)', device, lists=True
    )


def test_only_booleans_and_attributes_may_be_the_result() -> None:
    with pytest.raises(
        CompileError, match="must evaluate to bool or the unknown type, not string"
    ) as caught:
        device_selector("device.driver")
    assert caught.value.kind == "RuleInvalid"
    with pytest.raises(CelError, match="CEL result of type int could not be converted to bool"):
        matches('device.attributes["laser.example.org"].watts')
    with pytest.raises(CompileError, match=r"not map\(string, google.protobuf.Any\)"):
        device_selector('device.attributes["laser.example.org"]')


def test_an_attribute_has_the_type_any_unless_it_may_be_a_list() -> None:
    source = "device.attributes.colour == 1"
    with pytest.raises(CompileError, match=r"applied to '\(map\(string, any\), int\)'"):
        device_selector(source)
    with pytest.raises(CompileError, match=r"applied to '\(map\(string, dyn\), int\)'"):
        device_selector(source, lists=True)


def test_costs_are_estimated_and_counted() -> None:
    selector = device_selector(
        'device.attributes["laser.example.org"].colour.lowerAscii() == "red"'
    )
    meter = Meter()
    assert selector.matches("laser.example.org", DEVICE, meter)
    assert (selector.max_cost, meter.spent) == (12, 6)


@pytest.mark.slow
def test_an_evaluation_that_costs_too_much_is_cancelled() -> None:
    source = "[0,1,2,3,4,5,6,7,8,9]"
    for name in "abcdef":
        source = (
            f"[0,1,2,3,4,5,6,7,8,9].all({name}, {source}.size() >= 0)"
            if name == "a"
            else (f"[0,1,2,3,4,5,6,7,8,9].all({name}, {source})")
        )
    with pytest.raises(CelError, match="actual cost limit exceeded"):
        matches(source)


def test_a_constant_that_cannot_be_computed_is_an_internal_error() -> None:
    with pytest.raises(CompileError, match="program instantiation failed") as caught:
        device_selector('int("x") == 1')
    assert caught.value.kind == "InternalError"


def test_versions_and_quantities_equal_no_other_types() -> None:
    with pytest.raises(CelError, match="no such overload"):
        matches('device.attributes["laser.example.org"].firmware == "2.3.1"')
    assert matches('device.attributes["laser.example.org"].firmware != "2.3.1"')
    assert not matches('device.attributes["laser.example.org"].firmware == null')


def test_rules_of_custom_resources_know_neither_bindings_nor_includes() -> None:
    with pytest.raises(CelError, match="undeclared reference to 'includes'"):
        compile_rule("self.includes(1)")
    with pytest.raises(CelError, match="undeclared reference"):
        compile_rule("cel.bind(a, self, a)")
