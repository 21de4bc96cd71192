"""Workload controllers: what they decide is in one module per controller, their loops are in `actor`."""
