"""The scheduling queue: active queue, backoff queues, unschedulable pool, nominations, in-flight events."""
