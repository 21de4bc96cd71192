"""Counters, gauges and histograms that components keep, and the forms in which they are shown.

Components count into plain numbers of their own; nothing here is global, nothing knows a clock, and
no step of a run depends on any of it. Whoever looks from outside gets an immutable snapshot.
"""
