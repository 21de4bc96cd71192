"""Drivers resume the coroutines. Both give the same trace hash; that equality is a test."""
