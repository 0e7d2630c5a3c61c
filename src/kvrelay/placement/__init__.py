"""Position conditions, one a file."""
