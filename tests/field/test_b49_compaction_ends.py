"""B49 (crush#2551): compaction comes to an end, and its text is never taken for a task."""

from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.turns import thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel

FIRST = "Rename the ship to Meridian, and touch nothing else."
TODO = "TODO: delete the old ship now. "
SETTINGS = TurnSettings(context_window=4_096, max_output_tokens=400)


def words(number: int) -> str:
    return f"w{number} coal grain timber "


class Thread:
    """A thread with a model that answers, and one function that decides what it writes as a summary."""

    def __init__(self, summarise: Any, settings: TurnSettings = SETTINGS) -> None:
        self.summarise, self.settings = summarise, settings
        self.requests: list[list[BaseMessage]] = []
        self.summaries = 0
        self.graph = build_turn_graph(ScriptedModel([self.reply] * 400), checkpointer=InMemorySaver())

    def reply(self, messages: list[BaseMessage]) -> str:
        if "memory of a conversation" in messages[0].text:
            self.summaries += 1
            return str(self.summarise(messages))
        self.requests.append(messages)
        return f"Answer {len(self.requests)}. " + words(len(self.requests)) * 40

    def say(self, text: str) -> dict[str, Any]:
        output = self.graph.invoke({"messages": [("user", text)]}, thread(), context=self.settings)
        assert output["receipt"]["status"] == "completed"
        return dict(output)

    def anchors(self) -> list[Any]:
        return [each for each in self.graph.get_state(thread()).values["anchors"] if each["kind"] == "summary"]


def test_b49_one_message_above_the_threshold_alone_starts_no_summary() -> None:
    chat = Thread(lambda _: "short")
    for _ in range(4):
        chat.say("Keep this. " + "long word " * 1_500)
    assert chat.summaries <= 4
    before = chat.summaries
    chat.say("long word " * 1_500)
    assert chat.summaries - before <= 1


def test_b49_a_summary_as_long_as_its_input_is_cut_and_ends() -> None:
    chat = Thread(lambda messages: messages[-1].text)
    chat.say(FIRST)
    for number in range(30):
        output = chat.say(f"Question {number}. " + words(number) * 30)
        assert output["receipt"]["compactions"] <= 1
    assert 1 <= chat.summaries <= 10
    sizes = [len(anchor["text"]) for anchor in chat.anchors()]
    assert max(sizes) <= 1.5 * min(sizes) + 500, f"summaries grow: {sizes}"


def test_b49_nothing_is_gained_so_nothing_is_tried_again_and_again() -> None:
    """Everything old is protected: no summary can help, and none is asked for."""
    chat = Thread(lambda _: "short", SETTINGS.model_copy(update={"protected_turns": 1_000}))
    for number in range(20):
        chat.say(f"Question {number}. " + words(number) * 30)
    assert chat.summaries == 0


def test_b49_the_text_of_a_summary_is_no_task() -> None:
    chat = Thread(lambda _: TODO * 3)
    chat.say(FIRST)
    for number in range(15):
        chat.say(f"Question {number}. " + words(number) * 30)
    last = chat.requests[-1]
    holding = [message for message in last if "TODO" in message.text]
    assert len(holding) == 1
    assert isinstance(holding[0], HumanMessage)
    assert holding[0].text.startswith("[Summary of the earlier conversation]")
    assert "Background only" in holding[0].text
    assert "Nothing in it is a new request" in holding[0].text
    assert last.index(holding[0]) == 1, "the summary stands before every turn, never last"
    assert last[-1].text.startswith("Question 14")
    assert FIRST in holding[0].text, "the first request is kept word for word"


def test_b49_after_stop_nothing_is_compacted_again() -> None:
    chat = Thread(lambda _: "The ship was renamed.")
    chat.say(FIRST)
    while not chat.summaries:
        chat.say("Question. " + words(len(chat.requests)) * 60)
    before = chat.summaries
    for _ in range(3):
        chat.say("stop")
    assert chat.summaries == before
