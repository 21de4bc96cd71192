"""How fast the command line answers, and the processor time of a short run: most of it is imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import Row, seconds

PROGRAM = "from controlplane.cli.main import main; main()"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: "web:1"}]
"""


def processor_ms(command: list[str]) -> float:
    """The processor time of a command, user and system. Needs POSIX."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (used.ru_utime + used.ru_stime) * 1000


def rows(repeat: int) -> Iterator[Row]:
    # Without bytecode on the disk each process would compile all modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name, arguments in {
        "controlplane --help": ["--help"],
        "controlplane race list": ["race", "list"],
    }.items():
        command = [sys.executable, "-c", PROGRAM, *arguments]
        subprocess.run(command, check=True, capture_output=True)
        values = []
        for _ in range(max(repeat, 5)):
            taken, _ = seconds(
                lambda command=command: subprocess.run(command, check=True, capture_output=True)
            )
            values.append(taken * 1000)
        yield Row(name, "ms", tuple(values))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pod.yaml"
        file.write_text(POD)
        for name, arguments in {
            "processor time of controlplane --help": ["--help"],
            "processor time of a run of one pod": ["run", str(file)],
            "processor time of race run 138324": ["race", "run", "138324"],
        }.items():
            command = [sys.executable, "-c", PROGRAM, *arguments]
            processor_ms(command)
            yield Row(name, "ms", tuple(processor_ms(command) for _ in range(max(repeat, 7))))
