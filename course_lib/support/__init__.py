"""Small helpers: input checks, attention capture, atomic writes, user folders."""
