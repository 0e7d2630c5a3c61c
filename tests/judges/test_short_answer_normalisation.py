"""The official normalisations, on texts whose forms were worked out with the official scripts' rules by hand."""

from __future__ import annotations

import pytest

from judges.normalise import drop, drop_f1, first_number, hotpot_f1, musique_f1, plain_value, squad

FORMS = [
    ("The Beatles", "beatles", "beatles"),
    ("U.S.", "us", "us"),
    ("1,000", "1000", "1000.0"),
    ("3.50", "350", "3.5"),
    ("1990-91", "199091", "1990.0 91.0"),
    ("twenty-one", "twentyone", "twenty one"),
    ("A", "", ""),
    ("Vitamin A", "vitamin", "vitamin"),
    ("Jay-Z", "jayz", "jay z"),
    ("10%", "10", "10.0"),
    ("$5", "5", "5.0"),
    ("7.0", "70", "7.0"),
    ("7", "7", "7.0"),
    ("1e3", "1e3", "1000.0"),
    ("1_000", "1000", "1000.0"),
    ("“Zoë’s” café", "“zoë’s” café", "“zoë’s” café"),
    ("1990–91", "1990–91", "1990–91"),
    ("an  apple\tand the pear", "apple and pear", "apple and pear"),
    ("theatre", "theatre", "theatre"),
    ("", "", ""),
    ("-5", "5", "5.0"),
    ("yes.", "yes", "yes"),
]


@pytest.mark.parametrize(("text", "as_squad", "as_drop"), FORMS)
def test_forms(text: str, as_squad: str, as_drop: str) -> None:
    assert (squad(text), drop(text)) == (as_squad, as_drop)


@pytest.mark.parametrize(
    ("candidate", "reference", "hotpot", "musique"),
    [
        ("red kite", "the red kite", 1.0, 1.0),
        ("big red kite", "red kite", 0.8, 0.8),
        ("red red", "red", 2 / 3, 2 / 3),
        ("yes it is", "yes", 0.0, 0.5),
        ("yes", "yes it is", 0.0, 0.5),
        ("no", "no way", 0.0, 2 / 3),
        ("yes", "yes.", 1.0, 1.0),
        ("green", "red", 0.0, 0.0),
        ("a", "the", 0.0, 1.0),
        ("", "red", 0.0, 0.0),
        ("red", "A", 0.0, 0.0),
    ],
)
def test_f1_of_squads_family(candidate: str, reference: str, hotpot: float, musique: float) -> None:
    """Where one side is exactly yes, no or noanswer, HotpotQA gives all or nothing; MuSiQue only looks for empty."""
    assert hotpot_f1(candidate, reference) == pytest.approx(hotpot, abs=1e-12)
    assert musique_f1(candidate, reference) == pytest.approx(musique, abs=1e-12)


@pytest.mark.parametrize(
    ("candidate", "reference", "f1"),
    [
        ("53", "53 years", 0.67),
        ("53 years", "53", 0.67),
        ("years", "53 years", 0.0),
        ("about 1,000 men", "1000", 0.5),
        ("54 years", "53 years", 0.0),
        ("twenty-one", "twenty one", 1.0),
        ("red red", "red", 1.0),
        ("a", "the", 1.0),
        ("", "red", 0.0),
        ("green", "red", 0.0),
    ],
)
def test_f1_of_drop(candidate: str, reference: str, f1: float) -> None:
    """2 * 1 * (1/2) / (3/2) = 0.67 in two decimals; sets, so a repeated word counts once; a number must be met."""
    assert drop_f1(candidate, reference) == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "plain", "number"),
    [
        (" 8,231,942. ", "8231942", "8231942"),
        ("The value is 8231942.", "The value is 8231942", "8231942"),
        ("12 of 34", "12 of 34", "12"),
        ("none.", "none", ""),
        ("8231942..", "8231942.", "8231942"),
    ],
)
def test_values(text: str, plain: str, number: str) -> None:
    assert (plain_value(text), first_number(text)) == (plain, number)
