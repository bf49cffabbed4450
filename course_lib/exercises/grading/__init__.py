"""Grade a whole class."""
