"""The resource claim controller: generated claims, reservations, deallocation."""
