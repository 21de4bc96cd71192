"""What awaits in a client: requests, reflector, informer, leader election, event recorder."""
