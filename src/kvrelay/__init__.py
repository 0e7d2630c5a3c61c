"""kvrelay: where retained KV states should stand, and which stale ones to recompute."""
