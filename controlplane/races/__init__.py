"""The catalogue: one module per published race.

A race is in the catalogue when search finds it with the fix off without a hint where to look,
finds nothing with the fix on, and the recording replays.
"""
