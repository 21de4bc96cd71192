"""Tables: what `kubectl get` prints. Upstream: pkg/printers/internalversion/printers.go."""

from __future__ import annotations

from controlplane.apiserver.kinds.tables.builder import table_of

__all__ = ["table_of"]
