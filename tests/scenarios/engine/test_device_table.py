"""The table of devices: each device of the slices, with the claims and pods that hold it."""

from __future__ import annotations

from typing import Any

from controlplane.scenarios.engine.device_table import UNPUBLISHED, device_rows, shown


def slice_of(pool: str, *devices: str, generation: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "spec": {
            "driver": "d",
            "pool": {"name": pool, "generation": generation},
            "devices": [{"name": name} for name in devices],
            **more,
        }
    }


def claim(name: str, *devices: tuple[str, str], pods: tuple[str, ...] = ()) -> dict[str, Any]:
    results = [{"driver": "d", "pool": pool, "device": device} for pool, device in devices]
    return {
        "metadata": {"namespace": "default", "name": name},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": each} for each in pods],
        },
    }


def test_each_device_stands_with_its_holder() -> None:
    rows = device_rows(
        [slice_of("p", "b", "a", nodeName="n")], [claim("c", ("p", "b"), pods=("x", "y"))]
    )
    assert rows == [("n", "d", "p", "a", "", ""), ("n", "d", "p", "b", "default/c", "x, y")]
    assert shown(rows)[0] == "Devices: 1 of 2 allocated"


def test_a_shared_device_has_a_row_for_each_claim() -> None:
    found = device_rows([slice_of("p", "a")], [claim("c", ("p", "a")), claim("e", ("p", "a"))])
    assert [row.claim for row in found] == ["default/c", "default/e"]
    assert shown(found)[0] == "Devices: 1 of 1 allocated"


def test_only_the_newest_generation_counts_and_lost_devices_come_last() -> None:
    slices = [slice_of("p", "old"), slice_of("p", "new", generation=2)]
    rows = device_rows(slices, [claim("c", ("p", "old"))])
    assert [(row.node, row.device) for row in rows] == [("", "new"), (UNPUBLISHED, "old")]


def test_of_many_devices_the_held_ones_come_first() -> None:
    names = [f"d{number:03}" for number in range(100)]
    rows = device_rows([slice_of("p", *names)], [claim("c", ("p", "d077"))])
    _, _, short = shown(rows)
    assert short[0].device == "d077"
    assert short[-1].node == "and 60 more"
