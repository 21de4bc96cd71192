"""The scheduling queue: active heap, backoff heaps, the unschedulable pool, the in-flight ledger."""
