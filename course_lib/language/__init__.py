"""Train a GPT to go on with a text, character by character (chapter 16)."""
