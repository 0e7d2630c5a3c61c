"""What is told and asked: the evidence holds the answer, nothing else does, and newer values come later."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest

from data_adapters.memory_lab.columns import LIFE_KINDS, SCHEMAS, Recipe, Schema, kinds, story
from data_adapters.memory_lab.persona import MAKERS as PERSONA_KINDS
from data_adapters.memory_lab.projects import PROJECTS
from data_adapters.memory_lab.schemas import Story
from data_adapters.memory_lab.workshop import SPAN
from data_adapters.memory_lab.world import Query, Round
from kvrelay.core.errors import ConfigError


def words(text: str) -> int:
    return len(text.split())


def recipe(schema: Schema, **changes: int) -> Recipe:
    given = {"histories": 12, "history_tokens": 700, "questions_per_history": 4, "seed": 3, **changes}
    if schema == "longmemeval":
        given = {"unanswerable_every": 7, "preference_every": 11, **given}
    return Recipe(schema=schema, **given)


STORIES: dict[str, list[Story]] = {
    schema: [story(recipe(schema), number, words) for number in range(12)] for schema in SCHEMAS
}
ASKED = [(told, query) for told in STORIES["longmemeval"] + STORIES["long_mt_bench_plus"] for query in told.queries]
ANSWERED = [(t, q) for t, q in ASKED if not q.unanswerable and q.type != "single-session-preference"]
CHOSEN = [(told, query) for told in STORIES["personamem"] for query in told.queries]


def rounds(told: Story) -> list[Round]:
    return [spoken for session in told.sessions for spoken in session.rounds]


def said(spoken: Round, teller: str | None = None) -> str:
    return {"user": spoken.user, "assistant": spoken.assistant}.get(teller or "", f"{spoken.user} {spoken.assistant}")


def day_of(told: Story, fact: str) -> int:
    (day,) = [session.day for session in told.sessions if fact in session.facts]
    return day


def test_every_type_is_asked() -> None:
    assert {q.type for t in STORIES["longmemeval"] for q in t.queries} == {*LIFE_KINDS, "single-session-preference"}
    found = {q.type for t in STORIES["long_mt_bench_plus"] for q in t.queries}
    assert found == {"retrospection", "revision", "conjunction"}
    assert {q.type for _, q in CHOSEN} == set(PERSONA_KINDS)
    missing = {q.type for _, q in ASKED if q.unanswerable}
    assert missing == {"single-session-user", "multi-session", "knowledge-update", "temporal-reasoning"}


def test_types_take_turns() -> None:
    counts = Counter(kind for kind, _ in kinds(recipe("longmemeval", unanswerable_every=0, preference_every=0)))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert sum(missing for _, missing in kinds(recipe("longmemeval"))) == 48 // 7


def test_every_named_piece_of_evidence_is_told_once() -> None:
    for told, query in [*ASKED, *CHOSEN]:
        facts = Counter(fact for session in told.sessions for fact in session.facts)
        assert query.evidence and all(facts[fact] == 1 for fact in query.evidence)
        assert max(facts.values()) == 1


def test_the_answer_stands_in_the_evidence_and_nowhere_else() -> None:
    assert len(ANSWERED) > 80
    for told, query in ANSWERED:
        with_answer = [spoken for spoken in rounds(told) if query.answer in said(spoken)]
        assert [spoken.fact for spoken in with_answer if spoken.fact in query.evidence], query
        assert all(spoken.fact in query.evidence for spoken in with_answer), query
        assert all(query.answer in said(spoken, spoken.teller) for spoken in with_answer), query
        assert query.answer not in query.text


def test_an_old_value_is_told_before_the_new_one() -> None:
    updates = [(told, query) for told, query in [*ASKED, *CHOSEN] if query.stale is not None]
    assert {q.type for _, q in updates} >= {"knowledge-update", "revision", "recall_user_shared_facts"}
    for told, query in updates:
        assert query.stale is not None and query.stale != query.answer
        old, new = query.evidence
        texts = {spoken.fact: said(spoken) for spoken in rounds(told)}
        assert query.stale in texts[old] and query.answer in texts[new] and query.answer not in texts[old]
        assert day_of(told, old) < day_of(told, new)


def test_a_question_across_sessions_needs_both() -> None:
    for told, query in ANSWERED:
        if query.type not in ("multi-session", "conjunction"):
            continue
        assert len({day_of(told, fact) for fact in query.evidence}) == 2
        holders = [f for f in query.evidence for s in rounds(told) if s.fact == f and query.answer in said(s)]
        assert len(holders) == 1


def test_a_linked_detail_is_settled_by_its_link_alone() -> None:
    details = {f"{project.name}/{detail.noun}": detail for project in PROJECTS for detail in project.details}
    found = [(told, query) for told, query in ANSWERED if query.type == "conjunction"]
    assert found
    for told, query in found:
        source, link = query.evidence
        linked = link.removesuffix("/link")
        assert details[linked].ask == query.text and details[linked].pool == details[source].pool
        assert day_of(told, source) // SPAN < day_of(told, link) // SPAN
        facts = {fact for session in told.sessions for fact in session.facts}
        assert linked not in facts and f"{source}/new" not in facts


def test_a_relation_leads_to_one_person_and_somebody_else_has_the_same_thing() -> None:
    found = [(told, query) for told, query in ANSWERED if query.type == "multi-session"]
    assert found
    for told, query in found:
        name, attribute = query.evidence[1].split("/")
        (relation,) = [spoken.user for spoken in rounds(told) if spoken.fact == f"{name}/relation"]
        assert name in relation and name not in query.text
        facts = {fact for session in told.sessions for fact in session.facts}
        rivals = {fact.split("/")[0] for fact in facts if fact.endswith(f"/{attribute}")} - {name}
        assert any(f"{rival}/relation" in facts for rival in rivals)


def test_dated_events_are_told_on_their_day() -> None:
    months = {2: "February", 3: "March", 4: "April", 5: "May", 6: "June", 7: "July"}
    events = [s for t in STORIES["longmemeval"] for s in t.sessions if any(f.startswith("event/") for f in s.facts)]
    assert events
    for session in events:
        when = date(2026, 2, 2) + timedelta(days=session.day)
        assert session.rounds[0].user.startswith(f"Today, on {when.day} {months[when.month]}, ")


def test_which_came_first_is_the_earlier_event() -> None:
    found = [(t, q) for t, q in ANSWERED if q.type == "temporal-reasoning" and q.text.endswith("first?")]
    assert found
    for told, query in found:
        first, second = sorted(query.evidence, key=lambda fact: day_of(told, fact))
        assert query.answer == first.removeprefix("event/") != second.removeprefix("event/")


def test_an_unanswerable_question_asks_for_what_is_never_told() -> None:
    many = recipe("longmemeval", unanswerable_every=1, histories=40)
    found = [(told, q) for told in (story(many, n, words) for n in range(40)) for q in told.queries]
    found += [(told, query) for told, query in ASKED if query.unanswerable]
    assert len(found) == 160 + 48 // 7
    for told, query in found:
        facts = {fact for session in told.sessions for fact in session.facts}
        explained = query.answer.rstrip(".").split("never of ")[1]
        if query.type == "temporal-reasoning":
            assert explained in query.text
            assert not any(explained in said(spoken) for spoken in rounds(told))
            continue
        name, attribute = explained.split("'s ")
        assert not any(fact.startswith(f"{name}/{attribute}") for fact in facts)
        assert any(fact.startswith(f"{name}/") for fact in facts)
        assert any(fact.endswith(f"/{attribute}") for fact in facts)


def test_a_preference_has_a_rubric_that_names_what_the_user_likes() -> None:
    found = [(told, query) for told, query in ASKED if query.type == "single-session-preference"]
    assert found
    for told, query in found:
        (spoken,) = [s for s in rounds(told) if s.fact == query.evidence[0]]
        named = query.answer.split("builds on ")[1].split(", the favourite")[0]
        assert named in spoken.user and named not in query.text


def test_four_replies_differ_and_are_about_as_long() -> None:
    for _, query in CHOSEN:
        assert len(set(query.options)) == 4
        lengths = [words(option) for option in query.options]
        assert max(lengths) - min(lengths) <= 6
        openings = {" ".join(option.split()[:2]) for option in query.options}
        assert len(openings) == 1


def test_the_right_reply_follows_from_the_history() -> None:
    for told, query in CHOSEN:
        texts = {spoken.fact: spoken.user for spoken in rounds(told)}
        right, told_of = query.options[0], " ".join(texts.get(fact, "") for fact in query.evidence)
        if query.type == "suggest_new_ideas":
            assert query.answer in right and not any(query.answer in said(spoken) for spoken in rounds(told))
            assert all(_last_words(option) in " ".join(map(said, rounds(told))) for option in query.options[1:])
        elif query.type == "recalling_the_reasons_behind_previous_updates":
            mine = f" {query.answer} ".replace(" your ", " my ").replace(" you ", " me ").strip()
            assert mine.replace("me grew", "I grew") in told_of and query.answer in right
            assert not any(o.split("because ")[1].rstrip(".") in told_of for o in query.options[1:])
        else:
            assert query.answer in told_of and query.answer in right


def _last_words(option: str) -> str:
    return option.removeprefix("You could give ").removesuffix(" a try.")


def test_outdated_and_foreign_likings_are_among_the_wrong_replies() -> None:
    for told, query in CHOSEN:
        if query.type != "recall_user_shared_facts":
            continue
        wrong, texts = " ".join(query.options[1:]), {spoken.fact: spoken.user for spoken in rounds(told)}
        assert query.stale is not None and query.stale in wrong
        friend = texts[f"{query.topic}/friend"].split(" is ")[1].split(".")[0]
        assert friend in wrong and friend not in query.options[0]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_sizes_are_as_near_as_small_talk_allows(schema: Schema) -> None:
    """Filling stops where one more session would not come nearer: half of the longest one is the largest error."""
    from data_adapters.memory_lab import schemas

    for told in STORIES[schema]:
        if schema == "personamem":
            sizes = [words(schemas.block_text(session, told.title)) for session in told.sessions]
        elif schema == "longmemeval":
            sizes = [words(schemas.dated_text(session)) for session in told.sessions]
        else:
            sizes = [words(schemas.exchange_text(session.rounds[0])) for session in told.sessions]
        assert abs(sum(sizes) - 700) <= max(sizes) / 2 + 20


def test_sessions_stand_on_different_days_in_order() -> None:
    for told in (told for stories in STORIES.values() for told in stories):
        days = [session.day for session in told.sessions]
        assert days == sorted(set(days))


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(("tokens", "wanted"), [(20, "too small"), (90_000, "too large")])
def test_impossible_sizes_name_the_setting(schema: Schema, tokens: int, wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"history_tokens={tokens} is {wanted}"):
        story(recipe(schema, history_tokens=tokens), 0, words)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_too_many_questions_name_the_setting(schema: Schema) -> None:
    with pytest.raises(ConfigError, match="questions_per_history"):
        story(recipe(schema, questions_per_history=60, histories=1), 0, words)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("questions", [1, 2, 3, 4, 5])
def test_up_to_five_questions_can_always_be_asked(schema: Schema, questions: int) -> None:
    for seed in range(4):
        made = recipe(schema, seed=seed, histories=20, questions_per_history=questions, history_tokens=1000)
        queries: list[Query] = [q for n in range(20) for q in story(made, n, words).queries]
        assert len(queries) == 20 * questions
