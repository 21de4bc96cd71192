"""Between HTTP and a request: routing, negotiation, rendering, discovery, OpenAPI."""
