"""`python -m tests.golden [DIR ...] [--area A] [--failures N]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.golden.runner import DATA, golden_files, run_file


def main(arguments: list[str] | None = None) -> int:
    """Runs the golden files and prints one line each; 0 all agree, 1 some differ, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=main.__doc__)
    parser.add_argument("dirs", nargs="*", type=Path, metavar="DIR", help="folders or files")
    parser.add_argument("--area", help="only files in folders of this name")
    parser.add_argument(
        "--failures", type=int, default=5, metavar="N", help="differences shown per file"
    )
    options = parser.parse_args(arguments)
    for path in options.dirs:
        if not path.exists():
            parser.error(f"{path}: no such file or folder")
    files = golden_files(options.dirs or [DATA], options.area)
    if not files:
        parser.error("no golden files found")
    failed = 0
    for path in files:
        tally = run_file(path)
        failed += tally.failed
        print(tally, flush=True)
        for case, text in tally.failures[: options.failures]:
            print(f"  {case}: {text[:500]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
