"""Custom resources: definitions, schemas, validation rules, and serving them."""
