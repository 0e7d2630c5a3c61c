"""The only importer of transformers."""
