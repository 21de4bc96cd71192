"""CBOR (RFC 8949) as the API speaks it behind the gate CBORServingAndStorage. Upstream: KEP-4222."""
