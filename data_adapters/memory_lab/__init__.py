"""Conversations that the project makes itself, in the schemas of three published data sets."""
