"""The command ``course``."""
