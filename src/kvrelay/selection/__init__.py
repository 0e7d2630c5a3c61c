"""Selectors, one a file."""
