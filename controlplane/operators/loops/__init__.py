"""Loops: processes, one session with an operator, its requests and its pace."""
