"""The nouns: examples, budgets, caches, positions, selections. Torch and the standard library only."""
