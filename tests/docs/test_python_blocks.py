"""Python that pages show: it can be read, imports public names that exist, and runs where it is complete."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest

from tests.docs.pages import PAGES, name
from tests.test_public_modules import PUBLIC, imported

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(block, id=f"{name(page)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
]
COMPLETE = [
    each
    for each in BLOCKS
    if each.values[0].startswith("from") and "SCENARIO))" not in each.values[0]
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_python_that_imports_public_modules_only(block):
    source = textwrap.dedent(block)
    ast.parse(source)
    assert [module for module in imported(source) if module not in PUBLIC] == []


@pytest.mark.parametrize("block", COMPLETE)
def test_a_complete_block_runs(block, capsys):
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(block, "page", "exec"), names)
    if "world.run()" in block:
        assert capsys.readouterr().out.startswith("pong 1\nquiescent ")
    else:
        assert "SCENARIO" in names


def test_there_are_complete_blocks():
    assert len(COMPLETE) >= 3
