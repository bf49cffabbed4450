"""Translate real sentences: Multi30k, German and English, trained for an hour (chapter 14)."""
