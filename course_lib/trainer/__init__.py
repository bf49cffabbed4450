"""One training loop: its state, its step, and how it resumes after an interruption."""
