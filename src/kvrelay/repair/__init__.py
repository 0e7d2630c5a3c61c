"""Repair of a cache after a deletion: allocators choose which stale states to refresh, executors how.

Repair is no erasure: states that are not refreshed may still hold what was deleted, and the model's weights hold what
they hold. Nothing here is a privacy mechanism.
"""
