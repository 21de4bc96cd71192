"""The container storage interface: calls as messages, and an emulated driver."""
