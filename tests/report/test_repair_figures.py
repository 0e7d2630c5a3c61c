"""Figures of repair: what is drawn where, and nothing for nothing."""

from __future__ import annotations

import matplotlib
import pytest

from kvrelay.report.plots import Panel, Series, _draw, figure

LINES = (
    Series(name="SUR", points=((2.0, 50.0), (5.0, 100.0)), bars=((40.0, 60.0), None)),
    Series(name="Shift", points=((0.0, 10.0),), level=True),
)
BUDGETS = Panel(title="A", x="budget", y="EM", series=LINES, ticks=((2.0, "2"), (5.0, "5")), log=True)
FOREST = Panel(
    title="B",
    x="contrast",
    y="",
    series=(Series(name="Replay", points=((-1.0, 0.0), (0.5, 1.0)), bars=((-2.0, 0.0), (0.0, 1.0)), joined=False),),
    ticks=((0.0, "first"), (1.0, "second")),
    sideways=True,
)


def test_lines_levels_bars_and_ticks() -> None:
    drawn = _draw([BUDGETS, FOREST])
    left, right = drawn.axes
    joined = next(line for line in left.lines if line.get_label() == "SUR")
    assert (list(joined.get_xdata()), list(joined.get_ydata())) == ([2.0, 5.0], [50.0, 100.0])
    level = next(line for line in left.lines if line.get_label() == "Shift")
    assert set(level.get_ydata()) == {10.0}
    bars = [list(line.get_ydata()) for line in left.lines if list(line.get_xdata()) == [2.0, 2.0]]
    assert bars == [[40.0, 60.0]]
    assert [text.get_text() for text in left.get_xticklabels()] == ["2", "5"]
    assert left.get_xscale() == "log" and not len(left.xaxis.get_minorticklocs())
    assert [text.get_text() for text in right.get_yticklabels()] == ["first", "second"]
    assert right.get_ylim()[0] > right.get_ylim()[1]
    sideways = [(list(line.get_xdata()), set(line.get_ydata())) for line in right.lines]
    assert ([-2.0, 0.0], {0.0}) in sideways and ([0.0, 1.0], {1.0}) in sideways
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["SUR", "Shift", "Replay"]


def test_more_lines_than_colours_stay_apart() -> None:
    series = tuple(Series(name=f"s{i}", points=((1.0, float(i)), (2.0, float(i)))) for i in range(16))
    (axis,) = _draw([Panel(title="", x="", y="", series=series)]).axes
    looks = {(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in axis.lines}
    assert len(looks) == 16


def test_files_are_equal_and_hold_their_data() -> None:
    rows = [{"a": 1.5, "b": None}]
    one, other = (figure("f", [BUDGETS], rows, ("a", "b"), "Told.") for _ in range(2))
    assert one == other and set(one) == {"f.pdf", "f.png", "f.csv", "f.md"}
    assert (one["f.csv"], one["f.md"]) == (b"a,b\n1.5,\n", b"Told.\n")
    assert one["f.pdf"].startswith(b"%PDF") and b"CreationDate" not in one["f.pdf"]


@pytest.mark.parametrize("panels", [[], [Panel(title="", x="", y="", series=(Series(name="s", points=()),))]])
def test_nothing_to_draw_is_no_figure(panels: list[Panel]) -> None:
    assert figure("f", panels, [], (), "") == {}


def test_settings_of_matplotlib_are_left_alone() -> None:
    before = dict(matplotlib.rcParams)
    figure("f", [BUDGETS], [], (), "")
    assert dict(matplotlib.rcParams) == before
