"""The account that every namespace has."""
