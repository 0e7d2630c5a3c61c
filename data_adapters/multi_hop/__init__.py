"""Questions whose answers stand in several passages, read from four published data sets and asked after a deletion."""
