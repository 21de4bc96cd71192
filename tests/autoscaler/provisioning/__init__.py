"""Tests of requests for capacity."""
