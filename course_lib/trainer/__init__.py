"""One training loop: its state, its step, and how it continues after a stop."""
