"""`controlplane --debug`: whether tracebacks are printed as they are."""

ON = False
"""Set once, when the command line is read."""
