"""Removes what is in a namespace that is being deleted. Upstream: pkg/controller/namespace."""
