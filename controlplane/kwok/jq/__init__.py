"""The query language jq, as gojq has it: what stages of KWOK select and measure objects with.

No library of Python serves: numbers that gojq reads from an object are floats and never equal a selector's value,
those that it computes are integers; `now` and `env` must not reach the machine; and a program must end.
"""

from controlplane.kwok.jq.evaluation import JqError, Query, query
from controlplane.kwok.jq.syntax import JqSyntaxError

__all__ = ["JqError", "JqSyntaxError", "Query", "query"]
