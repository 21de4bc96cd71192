"""Where pods wait: active queue, backoff queues, unschedulable pool, nominations, in-flight ledger."""
