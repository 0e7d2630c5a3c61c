"""What is recorded inside repaired caches becomes a table and a figure, and nothing where nobody looked."""

from __future__ import annotations

import csv
import io

from stored_records import record

from kvrelay.report.mixed import files
from kvrelay.run.record import Cell, RepairFacts, RunRecord


def looked(example: str, allocator: str, *layers: tuple[float, float | None]) -> RunRecord:
    names = ("stale_key_deviation", "stale_value_deviation", "value_deviation")
    inside = [{**dict.fromkeys(names, 0.5), "key_deviation": key, "stale_mass": mass} for key, mass in layers]
    facts = RepairFacts(splice=1, n_suffix=4, n_deleted=1, requested=2, refreshed=2, mixed=inside)
    cell = Cell(
        model="m",
        dataset="d",
        selector="full",
        retention="all",
        position="original",
        allocator=allocator,
        budget="p05",
        executor="packed",
    )
    return record(example).model_copy(update={"cell": cell, "repair": facts})


def test_layers_are_averaged_over_examples_and_arms_over_layers() -> None:
    made = files([looked("a", "sur", (0.0, 0.2), (0.4, None)), looked("b", "sur", (0.2, 0.4), (0.2, None))])
    rows = list(csv.DictReader(io.StringIO(made["mixed.csv"])))  # type: ignore[arg-type]
    assert [(row["layer"], row["key_deviation"], row["stale_mass"], row["n"]) for row in rows] == [
        ("0", "0.1", "0.3", "2"),
        ("1", "0.3", "", "2"),
    ]
    text = str(made["mixed.md"])
    assert " 0.2000 |" in text and " 0.3000 |" in text and "SUR" in text
    assert {"mixed.tex", "mixed_layers.png", "mixed_layers.pdf", "mixed_layers.csv"} <= made.keys()


def test_records_that_did_not_look_inside_make_no_files() -> None:
    assert files([record("a"), looked("b", "shift")]) == {}
