"""Same-key deletion cases that the project makes itself."""
