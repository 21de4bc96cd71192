"""The API server: an MVCC store, a watch cache, and everything between a request and the store."""
