"""`/metrics` of a served cluster: all components on one page.

It is read from outside, between two steps: a scrape takes no step, is not recorded, and so leaves
trace and replay as they are. Access is checked by the server, as for every path that is no
resource. Upstream every component answers for itself; `metrics_of` says how they are distinguished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.requests.routing import no_such_method
from controlplane.metrics.exposition import CONTENT_TYPE, text_of
from controlplane.scenarios.engine.metrics import metrics_of

if TYPE_CHECKING:
    from controlplane.apiserver.loops.http_host import Page
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.cluster import Cluster

__all__ = ["PATH", "of"]

PATH: Final = "/metrics"


def of(cluster: Cluster) -> Page:
    """The page of a cluster. ApiError 405 for other methods than GET and HEAD."""

    def page(http: HttpRequest) -> HttpAnswer:
        if http.method not in ("GET", "HEAD"):
            raise no_such_method()
        return HttpAnswer(200, {"Content-Type": CONTENT_TYPE}, text=text_of(metrics_of(cluster)))

    return page
