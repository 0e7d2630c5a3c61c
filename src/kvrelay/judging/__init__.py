"""Blind judging: what judges see, and how items and verdicts are joined again."""
