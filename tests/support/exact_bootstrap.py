"""The bootstrap distribution of a mean without drawing: a slow reference for single-question clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def exact_bootstrap(differences: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """All means that a resample of these whole-number differences can have, ascending, and the chance of each.

    A resample adds up as many independent draws as there are differences, so that the sum's distribution is that of one
    draw convolved with itself so often: its Fourier transform to that power.
    """
    size, low, high = len(differences), min(differences), max(differences)
    one = np.zeros(size * (high - low) + 1)
    for difference in differences:
        one[difference - low] += 1 / size
    chances = np.fft.irfft(np.fft.rfft(one) ** size, len(one))
    return (np.arange(len(one)) + size * low) / size, chances.clip(min=0.0)
