"""`python -m controlplane`: the command line."""

from __future__ import annotations

from controlplane.cli.main import main

if __name__ == "__main__":
    main()
