"""The coroutines of a client: requests, reflector, informer, leader election, event recorder."""
