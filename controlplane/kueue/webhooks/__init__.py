"""Defaults and validation of Kueue's objects, and of the jobs and pods that it manages."""
