"""From an experiment's cells to records on disk."""
