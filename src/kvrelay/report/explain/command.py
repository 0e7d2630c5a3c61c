"""``python -m kvrelay.report explain FOLDER --cell "dataset=... selector=... position=..."``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvrelay.core.errors import ConfigError, KVRelayError
from kvrelay.report.explain.cell import find, parse
from kvrelay.report.explain.pairs import CHANGED, Explained, Pair, explain
from kvrelay.report.explain.printed import printed
from kvrelay.report.explain.terminal import printable
from kvrelay.report.explain.text import heading, pair_lines, sum_lines
from kvrelay.report.given import Stored
from kvrelay.report.views import DEFAULT, names
from kvrelay.report.views import find as find_view
from kvrelay.run.store import read_judges, read_plans, read_records, read_verdicts
from kvrelay.stats.frame import Results, tidy
from kvrelay.stats.pool import POOLED, pooled

MOST = 600
"""Characters of a question, a reference or an answer that are shown."""
KNOWN = 5


def main(arguments: Sequence[str]) -> int:
    """Print it; exit code 0, or that of the error (2 for a cell that nobody knows)."""
    options = _parser().parse_args(arguments)
    try:
        for line in explained(options):
            sys.stdout.write(printable(line) + "\n")
    except KVRelayError as error:
        sys.stderr.write(printable(f"{type(error).__name__}: {error}") + "\n")
        return error.exit_code
    except BrokenPipeError:
        # A pager was left: nobody reads on, and nothing went wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kvrelay.report explain", description="The records behind a number of a table."
    )
    parser.add_argument("folder", type=Path, help="OUT/<experiment>: holds runs/, records/ and verdicts/")
    parser.add_argument(
        "--cell",
        default="",
        help='names of the cell as in the CSV: "dataset=... selector=... position=... metric=accuracy '
        'column=difference"; names that have one value alone may be left out',
    )
    parser.add_argument("--view", default=DEFAULT, help=f"whose table: {', '.join(names())}")
    parser.add_argument("--baseline", help="what it is compared with; else the view's")
    parser.add_argument("--judge", help="name or id of the judge whose verdicts count; else the data set's")
    parser.add_argument("--example", help="this example alone")
    parser.add_argument("--changed", choices=CHANGED, help="only examples that changed so from the baseline")
    parser.add_argument("--characters", type=int, default=MOST, help="of a text that are shown; 0 for all")
    return parser


def explained(options: argparse.Namespace) -> Iterator[str]:
    """The lines, unescaped. Raises `ConfigError` for a cell or an example that is not there."""
    folder, view = options.folder, find_view(options.view)
    stored = Stored(
        plans=read_plans(folder),
        records=read_records(folder),
        verdicts=read_verdicts(folder),
        judges=read_judges(folder),
    )
    results = tidy(stored.plans, stored.records, stored.verdicts, stored.judges)
    judge = _judge(options.judge, results) if options.judge else ""
    table = stored.under(judge).table if judge else results.table
    cell = parse(options.cell)
    if cell.get("dataset") == POOLED:
        table = pooled(table[table["allocator"] != ""])
    asked = find(table, cell, view, options.baseline or view.BASELINE, judge)
    found = explain(asked, folder, stored, results.planned_judges)
    shown = _shown(found, options.example, options.changed)
    last = printed(found, folder, options.view, results.content_sha256)
    yield from heading(found)
    for pair in shown:
        yield ""
        yield from pair_lines(found, pair, options.characters)
    yield ""
    yield from sum_lines(found, len(shown))
    yield last


def _judge(name: str, results: Results) -> str:
    """The id of a judge in use, by its id or its name."""
    known = {judge: results.facts[judge].name if judge in results.facts else judge for judge in results.planned_judges}
    for judge, called in known.items():
        if name in (judge, called):
            return judge
    raise ConfigError(f"explain: no judge {name!r} in this experiment; known: {', '.join(known)}")


def _shown(found: Explained, example: str | None, changed: str | None) -> list[Pair]:
    shown = [pair for pair in found.pairs if example in (None, pair.example_id)]
    if not shown and example is not None:
        known = [pair.example_id for pair in found.pairs]
        more = f" and {len(known) - KNOWN} more" if len(known) > KNOWN else ""
        raise ConfigError(f"explain: no example {example!r} in this cell; known: {', '.join(known[:KNOWN])}{more}")
    return [pair for pair in shown if changed is None or found.change(pair) == changed]
