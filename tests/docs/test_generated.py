"""Pages that are made from the code have an entry for everything that they are about."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import click
import pytest

from docs._ext import (
    annotations,
    catalogue,
    command_line,
    docstrings,
    drawing,
    manual,
    points,
    site,
    vocabulary,
    yaml_words,
)
from docs._ext.markdown import escape, table
from tests.docs.pages import DOCS

SVG = "{http://www.w3.org/2000/svg}"


def test_every_command_has_an_entry_with_all_its_options():
    page = command_line.page()
    found = list(command_line.commands())
    assert len(found) > 35
    for name, command, ctx in found:
        start = page.index(f"({command_line.anchor(name)})=\n")
        entry = page[start : page.find("\n(cmd-", start + 1)]
        for param in command.get_params(ctx):
            if isinstance(param, click.Option) and not param.hidden:
                assert param.opts[0] in entry, (name, param.opts)


def test_every_race_has_an_entry():
    from controlplane.races.catalogue import all_races

    page = catalogue.races()
    for race in all_races():
        assert f"({catalogue.anchor(race.number)})=\n### {race.number}: " in page
        assert f"`controlplane race explore {race.number} --" in page
    assert page.count("\n### ") == len(all_races())


def test_options_of_a_race_are_in_its_entry():
    page = catalogue.races()
    entry = page[page.index("(race-138324)=") :]
    entry = entry[: entry.index("\n(race-", 1)]
    assert "`--small`" in entry
    assert "`--queueing-hints / --no-queueing-hints`" in entry


def test_every_named_scenario_has_an_entry_with_its_options():
    from controlplane.scenarios.search.loading import NAMED, from_module

    page = catalogue.scenarios()
    for name, module in NAMED.items():
        start = page.index(f"(scenario-{name})=\n")
        entry = page[start : page.find("\n(scenario-", start + 1)]
        for option in from_module(module).options:
            assert f"`--{option.name}" in entry, (name, option.name)


def test_every_gate_has_a_row():
    from controlplane.gates import CATALOGUE

    rows = re.findall(r"^\| `(\w+)` \|", catalogue.gates(), re.MULTILINE)
    assert sorted(rows) == sorted(CATALOGUE)


def test_every_event_has_an_entry_in_the_group_of_its_writer():
    from controlplane.logs.vocabulary import EVENTS

    page = vocabulary.page()
    assert sorted(re.findall(r"^`([\w.-]+)`$", page, re.MULTILINE)) == sorted(EVENTS)
    scheduler = page.partition("## scheduler\n")[2].partition("\n## ")[0]
    assert "`scheduler.failed`" in scheduler
    assert "`popped` (string), `found` (boolean)" in scheduler


def test_every_point_of_the_scheduler_has_a_row():
    from controlplane.scheduler.loops.points import POINTS

    assert re.findall(r"^\| `([\w.-]+)` \|", points.page(), re.MULTILINE) == list(POINTS)


def test_every_command_has_a_manual_page_with_its_options():
    pages = manual.pages()
    assert len(pages) > 30
    assert set(pages) == set(manual.summaries())
    assert "**--component NAME**" in pages["controlplane-race-list"]
    assert "**controlplane-race-list** (1)" in pages["controlplane-race"]
    assert "::\n\n    events" in pages["controlplane-logs-sql"]
    for name, summary in manual.summaries().items():
        assert f"({name!r}, {name!r}, " in manual.configuration()
        assert summary


def test_every_word_of_scenarios_in_yaml_has_a_row():
    from controlplane.scenarios.authoring import declared, faults, words

    rows = re.findall(r"^\| `([\w.-]+)` \|", yaml_words.page(), re.MULTILINE)
    tables = (
        declared.KEYS, words.WORDS, words.FLOW, faults.OPERATIONS, declared.FAULT_KEYS, declared.RULE_KEYS,
    )  # fmt: skip
    assert rows == [name for table in tables for name in table]
    assert all(f"- {name}\n" in yaml_words.page() for name in declared.INVARIANTS)


def test_the_reference_lists_the_annotations_that_the_code_reads_and_no_others():
    page = (DOCS / "reference" / "annotations.md").read_text(encoding="utf-8")
    assert annotations.in_code() == annotations.on_page(page)
    assert len(annotations.in_code()) > 25


def test_every_strategy_has_a_row():
    from controlplane.scenarios.engine.common_options import STRATEGY

    page = (DOCS / "how-to" / "search.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", page, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z][a-z-]+)`", row)} == set(
        STRATEGY.values
    )


def boxes(svg: str) -> list[tuple[float, str]]:
    """The texts of a picture, each with how far down it stands."""
    return [(float(each.get("y")), each.text) for each in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_picture_has_every_package_of_its_contract_in_the_order_of_the_contract():
    for contract in drawing.contracts():
        shown = boxes(drawing.pictures()[f"{contract.container.removeprefix('controlplane.')}.svg"])
        rows = [
            [name for at, name in shown if at == row] for row in sorted({at for at, _ in shown})
        ]
        expected = [list(layer) for layer in contract.layers]
        assert rows == (
            expected if contract.container != "controlplane" else [*expected, ["actors"]]
        )


def test_the_page_of_the_architecture_shows_every_picture():
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(\.\./_generated/(\w+\.svg)\)", page)
    assert sorted(shown) == sorted(drawing.pictures())


def test_another_contract_is_another_picture(tmp_path):
    project = tmp_path / "pyproject.toml"
    project.write_text(
        '[[tool.importlinter.contracts]]\ntype = "layers"\ncontainers = ["p"]\nlayers = ["a | b", "c"]\n'
    )
    (contract,) = drawing.contracts(project)
    names = [name for _, name in boxes(drawing.picture(contract))]
    assert names == ["a", "b", "c"]


def test_what_is_made_is_written_once_and_what_is_made_no_more_goes(tmp_path):
    site.write(tmp_path)
    folder = tmp_path / site.FOLDER
    assert sorted(path.name for path in folder.iterdir()) == sorted(site.made())
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / "old.md").write_text("")
    site.write(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a*b and `c*d|e`", r"a\*b and `c*d\|e`"),
        ("<POD> [x] {y} z|w", r"\<POD\> \[x\] \{y\} z\|w"),
        ("plain text, as it is", "plain text, as it is"),
    ],
)
def test_text_is_escaped_and_code_is_not(text, shown):
    assert escape(text) == shown


def test_a_table_has_a_line_for_each_row():
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_code_in_a_docstring_becomes_a_literal_and_an_example_a_block():
    text = ["Use `x` or *y*:", "", "    run(`z`)", "", "And `a", "b`.", "", ":param p: of `q`"]
    assert docstrings.as_rst(text) == [
        "Use ``x`` or \\*y\\*:",
        "",
        "::",
        "",
        "    run(`z`)",
        "",
        "And ``a b``.",
        "",
        ":param p: of ``q``",
        "",
    ]
