"""Deletes pods that no other component would. Upstream: pkg/controller/podgc."""
