"""The records behind a number of a table: ``python -m kvrelay.report explain FOLDER --cell "NAME=VALUE ..."``."""
