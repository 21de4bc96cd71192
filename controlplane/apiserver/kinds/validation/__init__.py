"""Validation of each kind, with upstream's field paths and messages (pkg/apis/*/validation)."""
