"""Tests of the autoscaler as a process."""
