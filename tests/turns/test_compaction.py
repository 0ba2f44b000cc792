"""When and how a summary takes the place of the older part of a history, on the pure core."""

from codelab.sessions.items import FileItem, MessageItem, SummaryItem
from codelab.turns import compaction
from codelab.turns.compaction import Piece

from tests.turns.history import message, sent
from tests.turns.world import READ, World

LONG = "word " * 400


def grown(turns: int, **settings: object) -> World:
    """A session in which every turn costs about 1,200 tokens."""
    world = World(**settings)
    for n in range(turns):
        world.say(f"question {n} {LONG}")
        (call_id,) = world.answer(f"looking {n}", READ)
        world.result(call_id, result={"content": LONG})
        world.answer(f"answer {n} {LONG}")
    return world


def piece_of(world: World) -> Piece | None:
    extent, _ = compaction.extent(world.register)
    wanted = range(extent.summary_n + 1, extent.history_n + 1)
    read = [MessageItem.of(world.table[f"MESSAGE#{n:09d}"]) for n in wanted]
    return compaction.piece(world.register, read, world.settings)


def compact(world: World, content: str = "So far so good.") -> Piece:
    piece = piece_of(world)
    assert piece is not None
    world.decide(lambda draft: compaction.commit(draft, piece, content))
    return piece


def test_a_short_history_is_left_alone() -> None:
    assert not compaction.is_due(grown(2).register, World().settings)


def test_a_history_is_summarised_before_it_is_too_long_and_what_is_left_is_worth_it() -> None:
    world = grown(4)
    assert compaction.is_due(world.register, world.settings)
    assert world.register.history_tokens < world.settings.max_context_tokens, "before it is too long"
    compact(world)
    assert not compaction.is_due(world.register, world.settings)
    assert 1_000 < world.register.history_tokens < 3_000


def test_many_small_messages_are_summarised_too() -> None:
    world = World()
    for _ in range(20):
        world.say()
        world.answer("ok")
    assert compaction.is_due(world.register, world.settings)
    compact(world)
    assert world.register.history_n - world.register.summary_n <= 20


def test_an_answer_stays_together_with_the_results_of_its_calls() -> None:
    world = grown(5)
    piece = compact(world)
    assert world.table[f"MESSAGE#{piece.n + 1:09d}"]["role"] != "tool"


def test_the_newest_answer_is_never_summarised_also_while_its_calls_are_open() -> None:
    world = World(max_context_tokens=2_000)
    world.say(LONG * 3)
    first, _ = world.answer(LONG, READ, READ)
    world.result(first, result={"content": LONG})
    assert compaction.is_due(world.register, world.settings)
    compact(world)
    assert world.register.summary_n == 1, "the question; the answer still waits for a result"
    assert piece_of(world) is None, "nothing else may be summarised"


def test_the_original_messages_stay() -> None:
    world = grown(4)
    before = world.history()
    compact(world)
    assert world.history() == before


def test_a_summary_that_comes_too_late_is_dropped() -> None:
    world = grown(4)
    piece = piece_of(world)
    compact(world, "the first")
    assert world.decide(lambda draft: compaction.commit(draft, piece, "the second")) is None
    (summary,) = [item for sk, item in world.table.items() if sk.startswith("SUMMARY#")]
    assert summary["content"] == "the first"


def test_a_summary_that_failed_is_due_again_when_the_history_has_grown_by_a_quarter() -> None:
    world = grown(4)
    world.decide(lambda draft: compaction.back_off(draft, draft.before))
    failed = world.register.history_tokens
    while world.register.history_tokens < 1.25 * failed:
        assert not compaction.is_due(world.register, world.settings)
        world.say("word " * 100)
        world.answer("ok")
    assert compaction.is_due(world.register, world.settings)
    compact(world)
    assert not world.register.summary_failed_tokens


def test_a_failure_is_noted_once_and_not_after_a_summary() -> None:
    world = grown(4)
    asked = world.register
    world.decide(lambda draft: compaction.back_off(draft, asked))
    assert world.decide(lambda draft: compaction.back_off(draft, asked)) is None
    compact(world)
    assert world.decide(lambda draft: compaction.back_off(draft, asked)) is None


def test_a_summary_may_be_committed_while_the_next_turn_runs() -> None:
    world = grown(4)
    piece = piece_of(world)
    world.say("go on")
    lease = world.acquire()
    world.decide(lambda draft: compaction.commit(draft, piece, "So far."))
    world.answer("ok", lease=lease)
    assert world.register.summary_n == piece.n
    assert world.statuses()[-1] == "idle"


def test_a_history_that_nobody_has_summarised_for_long_is_taken_up_in_pieces() -> None:
    world = grown(20)
    tokens = world.register.history_tokens
    first = compact(world)
    assert sum(len(text) for text in map(str, compaction.messages(first, None))) < 3 * 8_000
    assert world.register.history_tokens == tokens - first.tokens
    for _ in range(30):
        if not compaction.is_due(world.register, world.settings):
            break
        compact(world)
    assert not compaction.is_due(world.register, world.settings)


def test_the_summary_before_is_told_to_who_makes_the_next() -> None:
    world = grown(4)
    piece = piece_of(world)
    _, asked = compaction.messages(piece, SummaryItem(3, "Ann likes tabs.", 1))
    assert "Ann likes tabs." in asked["content"]
    assert "question 0" in asked["content"]


def test_a_summary_is_bounded() -> None:
    solution = {"summary": "s" * 90_000, "decisions": ["d"], "open_tasks": [], "files": ["a.py: read"], "facts": []}
    text = compaction.text_of(solution, World().register, World().settings)
    assert len(text) < 4_000
    short = compaction.text_of({**solution, "summary": "Short."}, World().register, World().settings)
    assert short == "Short.\n\nDecisions:\n- d\n\nFiles:\n- a.py: read"


# -- what the model is sent --------------------------------------------------------------------------------------------


def file(path: str, content: str | None, tokens: int = 10) -> FileItem:
    return FileItem(path, content, tokens, 1, 1)


def test_the_summary_and_the_files_come_before_the_history() -> None:
    found = sent(
        message(8, "assistant", "go"),
        message(9, "user", "on"),
        summary=SummaryItem(7, "Ann likes tabs.", 1),
        files=[file("a.py", "x = 1")],
    )
    assert [one["role"] for one in found] == ["system", "user", "assistant", "user"]
    opening = found[1]["content"]
    assert opening.index("## a.py\n```\nx = 1\n```") < opening.index("Ann likes tabs.")
    assert "first 7 messages" in opening


def test_the_question_of_a_long_turn_is_kept_whatever_is_dropped() -> None:
    answers = [message(n, "assistant", "said " * 300) for n in range(30, 50)]
    found = sent(message(2, "user", "the question"), *answers, turn_n=2, budget=1_500)
    assert found[1] == {"role": "user", "content": "the question"}
    assert found[-1]["content"].startswith("said")
    assert len(found) < 8


def test_the_question_stands_in_its_place_where_that_is_shown() -> None:
    found = sent(
        message(1, "user", "before"), message(2, "assistant", "yes"), message(3, "user", "the question"),
        message(4, "assistant", "well"), turn_n=3,
    )  # fmt: skip
    assert [one["content"] for one in found[1:]] == ["before", "yes", "the question", "well"]


def test_a_file_that_is_too_large_is_cut_and_those_for_which_there_is_no_room_are_named() -> None:
    big = "line\n" * 20_000
    found = sent(
        message(1, "user", "hello"),
        files=[file("big.py", big, 40_000), file("next.py", "y = 2"), file("named.py", None, 0)],
    )
    content = found[1]["content"]
    assert "characters cut out" in content
    assert "## next.py\nNot shown here" in content
    assert "## named.py\nNot shown here" in content
    assert content.endswith("hello")
    assert len(content) < 8_000 * 4


def test_nothing_in_a_file_ends_its_fence() -> None:
    found = sent(message(1, "user", "hi"), files=[file("a.md", "```\ncode\n```")])
    assert "````\n```\ncode\n```\n````" in found[1]["content"]
