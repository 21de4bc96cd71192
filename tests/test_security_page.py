"""SECURITY.md names tests that exist: every line of its threat table is covered."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


def test_every_test_that_the_page_names_exists():
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert not missing


def test_every_threat_has_a_test():
    table = PAGE[PAGE.index("| threat |") :].split("\n\n")[0].splitlines()[2:]
    assert len(table) > 15
    assert not [line for line in table if "::test_" not in line]
