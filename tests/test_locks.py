"""The locks pin everything that pyproject.toml asks for, each file by its digests."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: dict[str, list[str]] = PROJECT["dependency-groups"]
ASKED = {
    "run": [*PROJECT["project"]["dependencies"], *GROUPS["build"]],
    **{name: found for name, found in GROUPS.items() if name != "build"},
}
PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!-]+)")
WANTED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z]+\])?(?:(>=|==)([0-9.]+))?")


def canonical(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall("[0-9]+", version)]


def pins(group: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, version in PIN.findall((ROOT / "requirements" / f"{group}.lock").read_text()):
        found.setdefault(canonical(name), []).append(version)
    return found


@pytest.mark.parametrize("group", ASKED)
def test_what_a_group_asks_for_is_pinned_within_its_range(group: str) -> None:
    known = pins(group)
    for asked in ASKED[group]:
        match = WANTED.match(asked)
        assert match is not None
        name, rule, version = match.groups()
        assert canonical(name) in known, f"{name}: run `python3 dev.py lock`"
        for pinned in known[canonical(name)]:
            if rule == "==":
                assert pinned == version
            elif rule:
                assert numbers(pinned) >= numbers(version), f"{name}: run `python3 dev.py lock`"


@pytest.mark.parametrize("group", ASKED)
def test_every_pin_has_digests_and_no_index_is_named(group: str) -> None:
    text = (ROOT / "requirements" / f"{group}.lock").read_text()
    assert "://" not in text and "index" not in text
    for entry in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in entry, entry


def test_all_groups_agree_on_releases() -> None:
    releases: dict[str, list[str]] = {}
    for group in ASKED:
        for name, found in pins(group).items():
            assert releases.setdefault(name, found) == found, name
