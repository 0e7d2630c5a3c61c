"""HelloBench: long texts to write, each held to a checklist; and small records of the project's own in its schema."""
