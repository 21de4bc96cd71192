"""What is special to a kind: strategies, defaults, validation, selectable fields, table columns."""
