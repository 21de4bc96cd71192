"""Requests made from a seed against an API server: in process, or over HTTP.

    python -m tests.chaos.fuzz --requests N --seed S [--http]

`seeds` are real requests, `making` objects made from the schema, `spoiling` what is done to both, `traffic`
conversations made of them; `process` and `wire` send them, `judging` and `register` look at the answers, and
`shrinking` makes what they find small.
"""

from tests.chaos.fuzz.process import replay

__all__ = ["replay"]
