#!/usr/bin/env python3
"""Sets the project up and runs one thing in it. Needs nothing but Python 3.11 or newer.

    python3 dev.py run FILE... [OPTIONS]   the main job: emulate a cluster (controlplane run)
    python3 dev.py test [PYTEST ARGS]      the tests
    python3 dev.py check                   format, lint, types, import contract, all tests: what CI runs
    python3 dev.py bench [NAMES]           the benchmarks
    python3 dev.py controlplane ARGS...    any other command
    python3 dev.py golden [DIR...]         golden answers of real Kubernetes against ours
    python3 dev.py set-up                  only make the environment

The environment stands in `.venv-3.x` inside the project and is made again when pyproject.toml changes.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
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


def set_up_clients() -> int:
    """What only CI needs: other people's clients and the fuzzer."""
    stamp = VENV / "clients-installed-from"
    if stamp.exists() and stamp.read_text() == STAMP.read_text():
        return 0
    pip = [str(BIN / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    status = call(*pip, "--group", "clients", "--group", "fuzz")
    if not status:
        stamp.write_text(STAMP.read_text())
    return status


def newest_other_python() -> Path | None:
    """The newest installed Python that we support and that is not the one running: determinism is checked on both."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 30)]
    found = {}
    for python in [*pyenv.glob("versions/3.*/bin/python3"), *filter(None, names)]:
        asked = subprocess.run(
            [str(python), "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0:
            found[tuple(int(part) for part in asked.stdout.split())] = Path(python)
    found.pop(sys.version_info[:2], None)
    supported = [version for version in found if version >= (3, 11)]
    return found[max(supported)] if supported else None


def old_kubectl() -> None:
    """Unpack the distribution's kubectl beside the project's files, for the tests that want an old one.

    Where there is no such package, or no way to get it, those tests are skipped.
    """
    place = ROOT / ".tools" / "kubernetes-client"
    if place.exists() or not all(map(shutil.which, ("apt-get", "dpkg"))):
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(subprocess.SubprocessError, OSError),
    ):

        def run(*command: str) -> None:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)

        run("apt-get", "download", "kubernetes-client")
        draft = place.with_suffix(".part")
        draft.parent.mkdir(exist_ok=True)
        for package in Path(folder).glob("*.deb"):
            run("dpkg", "-x", str(package), str(draft))
        if draft.exists():
            draft.replace(place)


def check() -> int:
    """Everything CI looks at; all of it runs, the first failure decides the exit status."""
    python = str(BIN / "python")
    status = 0
    other = newest_other_python()
    if other is None:
        print("== no other Python 3.11+ here: determinism is checked on this one only")
    else:
        print(f"== environment of {other}", flush=True)
        status = call(str(other), str(ROOT / "dev.py"), "set-up")
    print("== clients and fuzzer", flush=True)
    status = set_up_clients() or status
    old_kubectl()
    for name, command in {
        "format": [str(BIN / "ruff"), "format", "--check", "."],
        "lint": [str(BIN / "ruff"), "check", "."],
        "types": [str(BIN / "mypy")],
        "import contract": [str(BIN / "lint-imports")],
    }.items():
        print(f"== {name}", flush=True)
        status = call(*command) or status
    print("== tests", flush=True)
    status = call(python, "-m", "pytest") or status
    print("== slow tests", flush=True)
    return call(python, "-m", "pytest", "-m", "slow") or status


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
    if verb not in {"check", "set-up", *verbs}:
        print(f"dev.py: no verb {verb!r}; try python3 dev.py --help", file=sys.stderr)
        return 2
    set_up()
    if verb == "set-up":
        return 0
    return check() if verb == "check" else call(*verbs[verb])


if __name__ == "__main__":
    sys.exit(main())
