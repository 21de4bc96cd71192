"""Permitted changes of endpoint slices."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.discovery.endpoint_slices import (
    validate_endpoint_slice,
    validate_endpoint_slice_update,
)


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_an_endpoint_slice_keeps_its_type_of_addresses() -> None:
    new, old = ({"addressType": kind} for kind in ("IPv6", "IPv4"))
    assert said(validate_endpoint_slice_update(new, old)) == [
        'addressType: Invalid value: "IPv6": field is immutable'
    ]


def test_a_port_has_a_protocol_that_is_known() -> None:
    ports = [{"protocol": ""}, {"protocol": "TCP"}, {}]
    found = said(validate_endpoint_slice({"addressType": "IPv4", "ports": ports}))
    told = [each for each in found if "protocol" in each]
    assert told == [
        'ports[0].protocol: Unsupported value: "": supported values: "SCTP", "TCP", "UDP"',
        "ports[2].protocol: Required value",
    ]
