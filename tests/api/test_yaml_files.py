"""Files that a user names are read, or refused in one line with their name."""

from __future__ import annotations

import pytest

from controlplane.api.yaml_files import read_document, read_documents
from controlplane.errors import UsageError


def test_documents_are_read_and_empty_ones_left_out(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\n---\n---\nb: [2]\n")
    assert read_documents(file) == [{"a": 1}, {"b": [2]}]
    file.write_text("a: 1\n")
    assert read_document(file) == {"a": 1}


@pytest.mark.parametrize("read", [read_document, read_documents])
@pytest.mark.parametrize("raw", [b"a: [", b"\xff\xfe\xff", b"a: !!int x"])
def test_a_file_that_cannot_be_read_is_named(read, raw, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes(raw)
    with pytest.raises(UsageError, match=r"a\.yaml: "):
        read(file)
    with pytest.raises(UsageError, match=r"none\.yaml: "):
        read(tmp_path / "none.yaml")


def test_a_key_that_is_repeated_is_refused_with_its_line(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\nb:\n  - {c: 1,\n     c: 2}\n")
    with pytest.raises(UsageError, match=r"a\.yaml: no YAML: line 4: key 'c' already set in map"):
        read_document(file)
    file.write_text("a: &x {c: 1}\nb: {<<: *x, c: 2}\nd: [*x, *x]\n")
    assert read_document(file)["b"] == {"c": 2}
