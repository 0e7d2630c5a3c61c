"""Launchers that wait for every job of a sweep, whatever becomes of some. Hydra finds them by this folder's name."""
