"""Paired cluster statistics over records and verdicts. No torch."""
