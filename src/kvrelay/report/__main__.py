"""``python -m kvrelay.report FOLDER``: write the report of an experiment's folder, print its table, then its path.

``python -m kvrelay.report explain FOLDER --cell "..."`` prints the records behind a number of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kvrelay.core.errors import IncompleteError, KVRelayError
from kvrelay.report.explain import command as explain
from kvrelay.report.views import DEFAULT, names
from kvrelay.report.write import main_table, write_report

EXPLAIN = "explain"
"""The first argument that asks for records in place of a report; ``./explain`` is a folder of that name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or that of the error: 5 for an incomplete experiment (its report is written), 6 for broken pairs."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [EXPLAIN]:
        return explain.main(given[1:])
    parser = argparse.ArgumentParser(prog="python -m kvrelay.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="OUT/<experiment>: holds runs/, records/ and verdicts/")
    parser.add_argument("--view", default=DEFAULT, help=f"the report's layout: {', '.join(names())}")
    parser.add_argument("--baseline", help="position or allocator that the others are compared with; else the view's")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap's draws")
    parser.add_argument("--resamples", type=int, default=10_000, help="number of bootstrap resamples")
    parser.add_argument("--max-unjudged", type=int, help="answers without a verdict that it bears; else any")
    options = parser.parse_args(given)
    code = 0
    try:
        write_report(
            options.folder,
            view=options.view,
            baseline=options.baseline,
            seed=options.seed,
            resamples=options.resamples,
            max_unjudged=options.max_unjudged,
        )
    except IncompleteError as error:
        code = _told(error)
    except KVRelayError as error:
        return _told(error)
    table = main_table(options.folder, options.view)
    sys.stdout.write(f"{table.read_text(encoding='utf-8')}\n{table}\n")
    return code


def _told(error: KVRelayError) -> int:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
