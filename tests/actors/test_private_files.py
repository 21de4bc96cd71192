"""Files and folders of which nobody but their owner reads anything."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager

import pytest

from actors import private_files


@contextmanager
def umask(value):
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("value", [0o000, 0o022, 0o077, 0o277])
def test_modes_hold_whatever_the_umask_is(tmp_path, value):
    with umask(value):
        private_files.make_folder(tmp_path / "out")
        private_files.write(tmp_path / "out" / "f", "text")
        private_files.write(tmp_path / "out" / "f", b"again")
    assert (mode(tmp_path / "out"), mode(tmp_path / "out" / "f")) == (0o700, 0o600)
    assert (tmp_path / "out" / "f").read_bytes() == b"again"
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["f"]


def test_a_file_is_private_before_anything_is_in_it(tmp_path):
    with umask(0):
        descriptor = private_files.create(tmp_path / "f")
    assert mode(tmp_path / "f") == 0o600
    os.close(descriptor)
    with pytest.raises(FileExistsError):
        private_files.create(tmp_path / "f")


def test_what_lies_in_the_way_of_a_draft_is_not_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "f.part").symlink_to(other)
    private_files.write(tmp_path / "f", "secret")
    assert other.read_text() == "mine"
    assert (tmp_path / "f").read_text() == "secret"
    (tmp_path / "g.part").write_text("")
    (tmp_path / "g.part").chmod(0o666)
    private_files.write(tmp_path / "g", "secret")
    assert mode(tmp_path / "g") == 0o600


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    (tmp_path / "out").mkdir(mode=0o750)
    private_files.make_folder(tmp_path / "out")
    assert mode(tmp_path / "out") == 0o750
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        private_files.make_folder(tmp_path / "file")
