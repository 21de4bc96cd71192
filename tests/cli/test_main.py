"""The command line as a whole: refusals of the system are one line, not defects."""

from __future__ import annotations

import errno
import os

import pytest

from controlplane.cli import main
from tests.cli.test_run import controlplane


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_a_file_that_the_system_refuses_is_wrong_use(capsys, code):
    assert main._told(OSError(code, os.strerror(code), "/some/file")) == 2
    assert capsys.readouterr().err == f"controlplane: /some/file: {os.strerror(code)}\n"


def test_an_error_without_a_file_is_a_defect(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert main._told(OSError(errno.EACCES, "denied")) == 3
    assert "defect" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_store_on_a_full_disk_is_not_called_damaged():
    done = controlplane("serve", "--store", "sqlite:/dev/full")
    assert done.returncode == 2
    assert done.stderr == "controlplane: /dev/full: cannot open the store: the disk is full\n"
