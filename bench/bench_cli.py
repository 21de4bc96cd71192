"""How fast the command line answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bench.harness import Row, seconds


def rows(repeat: int) -> Iterator[Row]:
    for name, arguments in {
        "controlplane --help": ["--help"],
        "controlplane race list": ["race", "list"],
    }.items():
        command = [
            sys.executable,
            "-c",
            "from controlplane.cli.main import main; main()",
            *arguments,
        ]
        subprocess.run(command, check=True, capture_output=True)
        values = []
        for _ in range(max(repeat, 5)):
            taken, _ = seconds(
                lambda command=command: subprocess.run(command, check=True, capture_output=True)
            )
            values.append(taken * 1000)
        yield Row(name, "ms", tuple(values))
