"""Slices that mirror the Endpoints of services without a selector."""
