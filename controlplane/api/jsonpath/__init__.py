"""The JSONPath of kubectl and of the API server: templates, their evaluation, and Go's printing of results.

`parse` reads a template such as `{.status.conditions[?(@.type=="Ready")].status}`; the `JSONPath` that it
returns finds values in a JSON tree and prints them. Errors have upstream's texts.

Upstream: client-go util/jsonpath and third_party/forked/golang/template.
"""

from controlplane.api.jsonpath.nodes import JSONPathError, TooMuchWork
from controlplane.api.jsonpath.path import JSONPath, parse
from controlplane.api.jsonpath.printing import printed

__all__ = ["JSONPath", "JSONPathError", "TooMuchWork", "parse", "printed"]
