"""What is fast, and how we know: `python3 dev.py bench [NAMES]`."""
