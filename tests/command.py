"""The command line, called in this process by the entry point that the program has.

A process of its own costs a second of imports. Where a test is about a process (signals, pipes, imports, hash seeds),
it starts one.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from contextvars import Context
from pathlib import Path
from unittest import mock

from controlplane.cli.main import _run

ROOT = Path(__file__).resolve().parents[1]


def controlplane(
    *arguments: object, cwd: Path = ROOT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit status, standard output and standard error."""
    words = ["controlplane", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, env),
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(), encoding="utf-8")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            # An empty context: as in a process of its own, worlds are not searched for what actors share.
            status = Context().run(_run)
        except SystemExit as ended:
            status = int(ended.code or 0)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, status, *texts)
