"""Tests of the emulated shell."""
