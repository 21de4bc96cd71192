#!/usr/bin/env python3
"""Sets the project up and runs one thing in it. Needs nothing but Python 3.11 or newer.

    python3 dev.py run FILE... [OPTIONS]   the main job: emulate a cluster (controlplane run)
    python3 dev.py test [PYTEST ARGS]      the tests
    python3 dev.py check                   format, lint, types, import contract, tests: what CI runs
    python3 dev.py bench [NAMES]           the benchmarks
    python3 dev.py controlplane ARGS...    any other command

The environment stands in `.venv` inside the project and is made again when pyproject.toml changes.
"""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / f".venv-{sys.version_info.major}.{sys.version_info.minor}"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
STAMP = VENV / "installed-from"


def call(*command: str) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def set_up() -> None:
    """Make the environment, unless it is there and was made from this very pyproject.toml."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    print(f"setting up {VENV.name} (once) ...", file=sys.stderr)
    venv.create(VENV, with_pip=True, clear=True)
    pip = [str(BIN / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    for arguments in (["--upgrade", "pip>=25.1"], ["--editable", ".[fast]", "--group", "dev"]):
        if call(*pip, *arguments):
            sys.exit("dev.py: installation failed")
    STAMP.write_text(wanted)


def check() -> int:
    """Everything CI looks at; all of it runs, the first failure decides the exit status."""
    python = str(BIN / "python")
    status = 0
    for name, command in {
        "format": [str(BIN / "ruff"), "format", "--check", "."],
        "lint": [str(BIN / "ruff"), "check", "."],
        "types": [str(BIN / "mypy")],
        "import contract": [str(BIN / "lint-imports")],
    }.items():
        print(f"== {name}", flush=True)
        status = call(*command) or status
    print("== tests", flush=True)
    return call(python, "-m", "pytest") or status


def main() -> int:
    if sys.version_info < (3, 11):
        sys.exit(f"dev.py: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if len(sys.argv) < 2 or sys.argv[1] in {"-h", "--help"}:
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    verb, *rest = sys.argv[1:]
    python = str(BIN / "python")
    verbs = {
        "run": [str(BIN / "controlplane"), "run", *rest],
        "test": [python, "-m", "pytest", *rest],
        "bench": [python, "-m", "bench", *rest],
        "controlplane": [str(BIN / "controlplane"), *rest],
        "golden": [python, "-m", "tests.golden", *rest],
    }
    if verb != "check" and verb not in verbs:
        sys.exit(f"dev.py: no verb {verb!r}; try python3 dev.py --help")
    set_up()
    return check() if verb == "check" else call(*verbs[verb])


if __name__ == "__main__":
    sys.exit(main())
