"""Logs as text of klog: a module for each component's messages, one for the text."""

from controlplane.logs.export.klog.text import VERBOSITY, lines

__all__ = ["VERBOSITY", "lines"]
