"""Deletes pods that nobody else would. Upstream: pkg/controller/podgc."""
