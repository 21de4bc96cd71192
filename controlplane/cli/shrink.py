"""`controlplane shrink RECORDING`: any recorded finding made short."""

from __future__ import annotations

from controlplane.cli.search import shrink_command

command = shrink_command

__all__ = ["command"]
