"""Benchmarks' numbers as tables and figures, one benchmark a module, found by its name."""
