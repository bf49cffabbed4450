"""Small helpers for the rest of the package, none of which knows a model or a terminal."""
