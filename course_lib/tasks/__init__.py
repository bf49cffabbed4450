"""Training tasks: number words, real sentences, and text to continue."""
