"""Translate real sentences: Multi30k, German and English (chapter 16)."""
