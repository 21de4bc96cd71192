"""Addresses of a service, in one object of the old form."""
