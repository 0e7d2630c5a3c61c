"""What only the answers can tell of a plan, and every table of it must say."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kvrelay.run.record import RunPlan, RunRecord


def trimmed(plan: RunPlan, records: Mapping[str, RunRecord], limit: int | None) -> Iterator[str]:
    """Data sets of which histories were trimmed to ``limit`` tokens, and of how many questions."""
    for dataset in dict.fromkeys(planned.cell.dataset for planned in plan.cells):
        keys = {key for cell in plan.cells if cell.cell.dataset == dataset for key in cell.keys} & records.keys()
        questions = {records[key].example_id for key in keys}
        cut = {records[key].example_id for key in keys if "trimmed" in records[key].notes}
        if cut:
            yield (
                f"{dataset}: the histories of {len(cut)} of {len(questions)} questions were TRIMMED to "
                f"{limit} tokens, units with evidence kept (dataset.max_history_tokens)"
            )


def decoded_apart(plan: RunPlan, records: Mapping[str, RunRecord], half: Collection[str]) -> Iterator[str]:
    """Arms that decoded in unlike batches, of the models in ``half`` precision, where a batch can change an answer.

    Arms that other runs of this folder answered count too; rows that decoded alone are alike.
    """
    planned = {key for cell in plan.cells for key in cell.keys if cell.cell.model in half} & records.keys()
    asked = {records[key].pair_key for key in planned}
    batches: dict[str, set[str]] = {}
    for record in records.values():
        if record.pair_key in asked and record.status == "ok":
            batches.setdefault(record.pair_key, set()).add(record.batch_sha256)
    apart = sum(len(found) > 1 for found in batches.values())
    if apart:
        yield (
            f"{apart} questions had arms decoded in unlike batches, in half precision, which can change an answer "
            "(decode_batch_rows=1 decodes every row alone)"
        )
