"""Files of cgroup v2: what a container's runtime applied."""

import pytest

from controlplane.api.cgroups import PLACE, files_of


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        ({}, ("max 100000", "1", "max")),
        ({"requests": {"cpu": "100m"}}, ("max 100000", "4", "max")),
        (
            {"requests": {"cpu": "200m"}, "limits": {"cpu": "300m", "memory": "250Mi"}},
            ("30000 100000", "8", "262144000"),
        ),
        ({"limits": {"cpu": "1m"}}, ("1000 100000", "1", "max")),
        ({"limits": {"cpu": "2"}}, ("200000 100000", "79", "max")),
        ({"limits": {"cpu": "0", "memory": "0"}}, ("max 100000", "1", "max")),
    ],
)
def test_amounts_are_written_as_the_kernel_shows_them(
    resources: dict[str, dict[str, str]], told: tuple[str, str, str]
) -> None:
    found = files_of({"resources": resources}, None)
    names = ("cpu.max", "cpu.weight", "memory.max")
    assert tuple(found[f"{PLACE}/{name}"].decode().strip() for name in names) == told


def test_what_was_applied_counts_and_not_what_is_asked_for() -> None:
    asked = {"resources": {"limits": {"cpu": "2"}}}
    applied = {"resources": {"limits": {"cpu": "1"}}}
    assert files_of(asked, applied)[f"{PLACE}/cpu.max"] == b"100000 100000\n"
