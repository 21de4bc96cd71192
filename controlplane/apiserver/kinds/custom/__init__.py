"""Custom resources: definitions, schemas, validation rules in CEL, and the strategy of their objects."""
