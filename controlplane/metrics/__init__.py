"""Counters, gauges and histograms of components, and their output formats.

Components count into plain numbers of their own; nothing here is global, nothing knows a clock, and
no step of a run depends on any of it. Readers from outside get an immutable snapshot.
"""
