"""Predictions, tests to write, and models with a bug to find."""
