"""What an object may look like: types, resources, reading and printing, errors about fields."""
