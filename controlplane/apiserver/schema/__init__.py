"""The shape of objects: types, resources, reading and printing, errors about fields."""
