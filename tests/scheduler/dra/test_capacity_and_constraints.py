"""Consumed capacity, and constraints among devices."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.quantity import parse
from controlplane.scheduler.dra.capacity import Allocating, consumed_by, fits
from controlplane.scheduler.dra.constraints import DistinctAttribute, MatchAttribute
from controlplane.scheduler.dra.devices import DeviceID
from tests.scheduler.dra.makers import DRIVER, device

ID = DeviceID(DRIVER, "p", "a")


@pytest.mark.parametrize(
    ("policy", "requested", "consumed"),
    [
        (None, None, "10"),
        (None, "3", "3"),
        ({"default": "2"}, None, "2"),
        ({"default": "2", "validValues": ["2", "5"]}, "3", "5"),
        ({"default": "2", "validRange": {"min": "2", "step": "4"}}, "3", "6"),
        ({"default": "2", "validRange": {"min": "2"}}, "1", "2"),
    ],
)
def test_a_request_is_rounded_up_as_the_policy_wants(
    policy: Any, requested: str | None, consumed: str
) -> None:
    offered: Any = {"beam": {"value": "10"}}
    if policy:
        offered["beam"]["requestPolicy"] = policy
    wish = {} if requested is None else {"beam": requested}
    assert str(consumed_by(wish, offered)["beam"]) == consumed
    assert fits(wish, offered, {}, {})


@pytest.mark.parametrize(
    ("policy", "requested"),
    [
        ({"default": "2", "validValues": ["2", "5"]}, "6"),
        ({"default": "2", "validRange": {"min": "2", "max": "4"}}, "5"),
        (None, "11"),
    ],
)
def test_a_request_beyond_policy_or_capacity_does_not_fit(policy: Any, requested: str) -> None:
    offered: Any = {"beam": {"value": "10"}}
    if policy:
        offered["beam"]["requestPolicy"] = policy
    assert not fits({"beam": requested}, offered, {}, {})


def test_an_unknown_capacity_does_not_fit() -> None:
    assert not fits({"heat": "1"}, {"beam": {"value": "10"}}, {}, {})


def test_shares_are_given_back_until_nothing_is_in_use() -> None:
    shares = Allocating()
    shares.insert(ID, {"beam": parse("2")})
    shares.insert(ID, {"beam": parse("3")})
    shares.remove(ID, {"beam": parse("2")})
    assert shares.of(ID)["beam"].value() == 3
    shares.remove(ID, {"beam": parse("3")})
    assert ID not in shares


def with_row(**value: Any) -> Any:
    return device("a", attributes={"row": value})


def test_matching_attributes_have_one_type_and_value() -> None:
    match = MatchAttribute({"matchAttribute": f"{DRIVER}/row"}, lists=False)
    assert match.add("r", "", with_row(int=1), ID)
    assert match.add("r", "", with_row(int=1), ID)
    assert not match.add("r", "", with_row(int=2), ID)
    assert not match.add("r", "", with_row(string="1"), ID)
    assert not match.add("r", "", device("b"), ID)
    match.remove("r", "")
    match.remove("r", "")
    assert match.add("r", "", with_row(int=2), ID)


def test_a_constraint_concerns_the_requests_that_it_names() -> None:
    match = MatchAttribute({"matchAttribute": f"{DRIVER}/row", "requests": ["r/x"]}, lists=False)
    assert match.add("other", "", device("b"), ID)
    assert match.add("r", "y", device("b"), ID)
    assert not match.add("r", "x", device("b"), ID)


def test_lists_match_in_the_values_that_all_have() -> None:
    match = MatchAttribute({"matchAttribute": f"{DRIVER}/row"}, lists=True)
    assert match.add("r", "", with_row(ints=[1, 2, 3]), ID)
    assert match.add("r", "", with_row(ints=[2, 3]), ID)
    assert match.add("r", "", with_row(int=2), ID)
    assert not match.add("r", "", with_row(ints=[3]), ID)


def test_distinct_attributes_differ_between_requests() -> None:
    distinct = DistinctAttribute({"distinctAttribute": f"{DRIVER}/row"}, lists=False)
    assert distinct.add("r1", "", with_row(int=1), ID)
    assert not distinct.add("r2", "", with_row(int=1), ID)
    assert distinct.add("r2", "", with_row(int=2), ID)
    distinct.remove("r1", "")
    assert distinct.add("r3", "", with_row(int=1), ID)
