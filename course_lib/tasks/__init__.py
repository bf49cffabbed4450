"""What is trained: number words, real sentences, a text to go on with."""
