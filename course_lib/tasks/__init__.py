"""Training tasks: number words, real sentences, and texts to continue."""
