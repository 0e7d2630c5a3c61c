"""What stands under the tables of repair: how far each of them may be read."""

from __future__ import annotations

from collections.abc import Collection

from kvrelay.report.names import PRIOR_WORK

NO_ERASURE = (
    "Repair is no erasure: states that were not refreshed may still hold what was deleted, and the model's weights "
    "hold what they hold. It is no privacy mechanism."
)
PRIOR = (
    "Policies from prior work lend their signal to our operator at an equal number of refreshed states; their rows "
    "rank no native system."
)
REPLAY = "Replay is an operational comparator, no upper bound: kernels differ between one pass and several."
ORACLE = "The oracle reads the clean cache. It is a diagnostic of where states differ, no method and no upper bound."
BORDERS = "That stale predecessors bound the error of a refreshed state does not make borders of meaning the best ones."
ONE_DEVICE = "Timings are those of one checkpoint on one device, one trial a case and no warm-up."
POST_EDIT = (
    "Post-edit latency holds selection, shift, refresh or re-prefill, question and decoding; the unedited context's "
    "prefill and the harness's copies of caches are left out. Only answers that decoded alone are timed."
)
PACKED = (
    "The paper's task quality was not rerun on packed execution; its quality and latency are the interval executor's."
)
SIDE_SWAP = (
    "A swap of sides also changes the evidence's order and recency; the tail contrast also changes filler, the volume "
    "of stale states and the evidence's distance from the question."
)
NO_EQUIVALENCE = "A localized refresh with a similar contrast is not shown to be equivalent to full replay."
NO_LIKELIHOOD = "An effect on exact match is no general gain in likelihood."


def common(allocators: Collection[str], executors: Collection[str]) -> tuple[str, ...]:
    """Caveats that follow from what is shown."""
    return (
        NO_ERASURE,
        *([PRIOR] if set(PRIOR_WORK) & set(allocators) else []),
        *([REPLAY] if "replay" in allocators else []),
        *([BORDERS] if "sur" in allocators else []),
        *([PACKED] if set(executors) - {"interval", ""} else []),
    )
