"""Permitted changes of ranges of services."""

from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.networking.service_cidrs import validate_service_cidr_update


@pytest.mark.parametrize(
    ("was", "now", "problems"),
    [
        (["10.0.0.0/24"], ["10.0.1.0/24"], ["spec.cidrs[0]"]),
        (["10.0.0.0/24"], ["10.0.1.0/24", "fd00::/64"], ["spec.cidrs[0]"]),
        (["10.0.0.0/24"], ["10.0.0.0/24", "fd00::/64"], []),
        (["10.0.0.0/24", "fd00::/64"], ["10.0.0.0/24"], ["spec.cidrs"]),
    ],
)
def test_ranges_of_services_stay_each_by_itself(
    was: list[str], now: list[str], problems: list[str]
) -> None:
    new, old = ({"spec": {"cidrs": cidrs}} for cidrs in (now, was))
    errors = validate_service_cidr_update(new, old)
    assert [(error.field, error.detail) for error in errors] == [
        (field, "field is immutable") for field in problems
    ]
