"""The certificate that every namespace has."""
