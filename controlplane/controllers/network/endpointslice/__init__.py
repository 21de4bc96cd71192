"""Addresses of a service, in slices of limited size."""
