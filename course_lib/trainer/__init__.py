"""One training loop: its state, its step, and how it goes on after a stop."""
