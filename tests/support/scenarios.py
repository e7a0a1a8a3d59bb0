"""Twelve conversations as data: what the model does, what the user does, and what must come out, whoever drives them."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.support.openai_server import Step, broken, call, error, hanging, say


@dataclass(frozen=True)
class Say:
    """A user's message; None sends none. `settings` of the turn are those of the scenario and these.

    `queued` are messages sent to the thread while the model writes its first round; `cancel_after`: the run is
    cancelled once exactly this text was streamed.
    """

    text: str | None
    settings: dict[str, Any] = field(default_factory=dict)
    queued: tuple[str, ...] = ()
    cancel_after: str = ""

    @property
    def message(self) -> dict[str, Any]:
        return {"messages": [] if self.text is None else [{"role": "user", "content": self.text}]}


@dataclass(frozen=True)
class Answer:
    """A person's answer to what the turn waits for: the value of a resume."""

    value: Any


Input: TypeAlias = Say | Answer


@dataclass(frozen=True)
class Turn:
    """How one turn must end. `told`: whether a stream shows its end; of others only the thread's own receipts speak."""

    answer: str
    rounds: int
    tool_calls: int = 0
    status: str = "completed"
    stop_reason: str = "finish"
    interactions: int = 0
    told: bool = True


@dataclass(frozen=True)
class Scenario:
    """`script` is used up step by step. `turns` in the order of their receipts; `tape` one line per message: `user:`,
    `calls IDS:`, `result ID STATUS:`, `answer:` (or the role of another text of the model) and how the text begins.
    `pauses`: the names asked about at each pause. `effects` in the order in which they happened. `made_ids`: calls get
    ids from the turn, whose tokens are not the same twice.

    `alike`: for how many inputs a turn that is a node of a parent gives exactly the same (None: for all). After that it
    is sent more, or less, than a turn on its own: what a turn folded, cut, or loaded is not kept between two runs of a
    parent's node. What it does is the same all the same. `tape_in_parent`: the tape there, where its order is another
    one: what a pause or a cancel kept from the parent is written by the next turn, after the message that began it.
    """

    name: str
    script: tuple[Step, ...]
    inputs: tuple[Input, ...]
    turns: tuple[Turn, ...]
    tape: tuple[str, ...]
    tools: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    response_format: dict[str, Any] | None = None
    pauses: tuple[tuple[str, ...], ...] = ()
    effects: tuple[str, ...] = ()
    structured: dict[str, Any] | None = None
    made_ids: bool = False
    alike: int | None = None
    tape_in_parent: tuple[str, ...] | None = None

    @property
    def cancels(self) -> bool:
        return any(isinstance(each, Say) and each.cancel_after for each in self.inputs)


PARAGRAPH = "the ship left port at dawn with coal grain and timber for the islands under a pale sky "
LONG = {"context_window": 2_048, "max_output_tokens": 300, "protected_turns": 1}

CONVERSATION = Scenario(
    "conversation",
    script=(
        say("Good morning. Which port?", reasoning="A greeting; ask for the port.", chunks=4),
        say("Zeebrugge it is. " + PARAGRAPH * 12, chunks=60),
        say("Coal was ordered. " + PARAGRAPH * 12, reasoning="Coal, then.", reasoning_field="reasoning", chunks=60),
        say("The user plans a voyage from Zeebrugge; coal was ordered."),
        say("We sail at dawn.", chunks=4),
    ),
    inputs=(
        Say("Good morning!"),
        Say("From Zeebrugge. " + PARAGRAPH * 20),
        Say("Order coal. " + PARAGRAPH * 20),
        Say("When do we sail? " + PARAGRAPH * 20),
    ),
    settings=LONG,
    turns=(
        Turn("Good morning. Which port?", 1),
        Turn("Zeebrugge it is. " + PARAGRAPH * 12, 1),
        Turn("Coal was ordered. " + PARAGRAPH * 12, 1),
        Turn("We sail at dawn.", 1),
    ),
    tape=(
        "user: Good morning!",
        "answer: Good morning. Which port?",
        "user: From Zeebrugge.",
        "answer: Zeebrugge it is.",
        "user: Order coal.",
        "answer: Coal was ordered.",
        "user: When do we sail?",
        "answer: We sail at dawn.",
    ),
)

BATCHES = Scenario(
    "batches",
    tools=("look", "write"),
    script=(
        call(
            ("look", {"place": "yard", "after": "roof"}),
            ("look", {"place": "roof"}),
            text="I look at both.",
            think="Two places at once.",
            chunks=3,
            argument_chunk=5,
            ids=["l-yard", "l-roof"],
        ),
        call(
            ("write", {"name": "one"}),
            ("write", {"name": "broken"}),
            ("fly", {"to": "moon"}),
            ("look", '{"place": '),
            ("write", {"name": "silent"}),
            text="Now I write.",
            ids=["w-one", "w-broken", "f-moon", "l-cut", "w-silent"],
        ),
        say("Both are empty; page one is written.", think="Say so.", chunks=1),
        call(("write", {"name": "two"}), ids=["w-one"]),
        say("Page two, too.", chunks=4),
    ),
    inputs=(Say("Look around and write."), Say("One more page.")),
    turns=(
        Turn("Both are empty; page one is written.", 3, tool_calls=5),
        Turn("Page two, too.", 2, tool_calls=1),
    ),
    tape=(
        "user: Look around and write.",
        "calls l-yard l-roof: I look at both.",
        "result l-yard ok: seen yard",
        "result l-roof ok: seen roof",
        "calls w-one w-broken f-moon l-cut w-silent: Now I write.",
        "result w-one ok: wrote one",
        "result w-broken error: ",
        "result f-moon error: ",
        "result l-cut error: ",
        "result w-silent ok: ",
        "answer: Both are empty; page one is written.",
        "user: One more page.",
        "calls NEW: ",
        "result NEW ok: wrote two",
        "answer: Page two, too.",
    ),
    effects=("write one", "write broken", "write silent", "write two"),
    made_ids=True,
)

APPROVALS = Scenario(
    "approvals",
    tools=("look", "send"),
    script=(
        call(
            ("look", {"place": "desk"}),
            ("send", {"to": "ann", "text": "come"}),
            ("send", {"to": "bob"}),
            ("send", {"to": "cid"}),
            text="Three letters.",
            chunks=5,
            ids=["l-desk", "s-ann", "s-bob", "s-cid"],
        ),
        call(("send", {"to": "dan"}), ids=["s-dan"]),
        say("Four letters are sent.", chunks=5),
        call(("look", {"place": "door"}), ids=["l-door"]),
        say("The door is shut."),
    ),
    inputs=(
        Say("Send the letters."),
        Answer(
            {
                "decisions": [
                    {"type": "approve"},
                    {"type": "edit", "edited_action": {"name": "send", "args": {"to": "rob", "text": "stay"}}},
                    {"type": "always", "scope": "tool"},
                ]
            }
        ),
        Say("And the door?", {"permission_mode": "ask_all"}),
        Answer("yes"),
    ),
    turns=(
        Turn("Four letters are sent.", 3, tool_calls=5, interactions=3),
        Turn("The door is shut.", 2, tool_calls=1, interactions=1),
    ),
    tape=(
        "user: Send the letters.",
        "calls l-desk s-ann s-bob s-cid: Three letters.",
        "result l-desk ok: seen desk",
        "result s-ann ok: sent to ann",
        "result s-bob ok: ",
        "result s-cid ok: sent to cid",
        "calls s-dan: ",
        "result s-dan ok: sent to dan",
        "answer: Four letters are sent.",
        "user: And the door?",
        "calls l-door: ",
        "result l-door ok: seen door",
        "answer: The door is shut.",
    ),
    pauses=(("send", "send", "send"), ("look",)),
    effects=("send ann come", "send rob stay", "send cid", "send dan"),
)

PARTLY = Scenario(
    "partly",
    tools=("send", "write"),
    script=(
        call(
            ("send", {"to": "ann"}),
            ("write", {"name": "log"}),
            ("send", {"to": "bob"}),
            text="Two letters and the log.",
            ids=["s-ann", "w-log", "s-bob"],
        ),
        say("Bob has his, Ann has none.", chunks=4),
        call(("send", {"to": "eve"}), text="And Eve?", ids=["s-eve"]),
        say("Eve gets nothing."),
    ),
    inputs=(
        Say("Send them."),
        Answer({"decisions": {"s-bob": {"type": "respond", "message": "I told Bob myself."}}}),
        Answer({"decisions": [{"type": "reject", "message": "Ann moved."}]}),
        Say("Write to Eve."),
        Answer({"decisions": [{"type": "abandon"}]}),
        Say("Forget Eve."),
    ),
    turns=(
        Turn("Bob has his, Ann has none.", 2, tool_calls=3, interactions=2),
        Turn(
            'The assistant wants to run send with {"to": "eve"}.',
            1,
            status="abandoned",
            stop_reason="user_abandoned",
            interactions=1,
        ),
        Turn("Eve gets nothing.", 1),
    ),
    tape=(
        "user: Send them.",
        "calls s-ann w-log s-bob: Two letters and the log.",
        "result s-ann denied: ",
        "result w-log ok: wrote log",
        "result s-bob ok: I told Bob myself.",
        "answer: Bob has his, Ann has none.",
        "user: Write to Eve.",
        "calls s-eve: And Eve?",
        "result s-eve cancelled: ",
        "answer: The assistant wants to run send",
        "user: Forget Eve.",
        "answer: Eve gets nothing.",
    ),
    pauses=(("send", "send"), ("send",), ("send",)),
    effects=("write log",),
)

_COLOURS = [{"label": "red"}, {"label": "green", "description": "like grass"}]
_ASK = {
    "questions": [
        {"id": "colour", "question": "Which colour?", "options": _COLOURS, "multiple": True, "free_text": False},
        {"id": "size", "question": "How large?"},
    ]
}
_AGAIN = {"questions": [{"question": "Really?"}]}

QUESTIONS = Scenario(
    "questions",
    tools=("ask_user", "look"),
    script=(
        call(("ask_user", _ASK), ("look", {"place": "shop"}), text="I need to know more.", ids=["q-1", "l-shop"]),
        call(("ask_user", _AGAIN), ids=["q-2"]),
        say("A large green one.", chunks=3),
        call(("ask_user", {"questions": [{"question": "When?"}]}), text="One more thing.", ids=["q-3"]),
        say("Then never.", chunks=3),
    ),
    inputs=(
        Say("Buy a boat."),
        Answer({"decisions": [{"type": "respond", "answers": {"colour": ["green"], "size": "ten metres"}}]}),
        Answer("yes, really"),
        Say("And a sail."),
        Say("Never mind."),
    ),
    turns=(
        Turn("A large green one.", 3, tool_calls=3, interactions=2),
        Turn("", 1, status="abandoned", stop_reason="user_abandoned", interactions=1, told=False),
        Turn("Then never.", 1),
    ),
    tape=(
        "user: Buy a boat.",
        "calls q-1 l-shop: I need to know more.",
        "result q-1 ok: ",
        "result l-shop ok: seen shop",
        "calls q-2: ",
        "result q-2 ok: ",
        "answer: A large green one.",
        "user: And a sail.",
        "calls q-3: One more thing.",
        "user: Never mind.",
        "result q-3 cancelled: Not answered",
        "answer: Then never.",
    ),
    pauses=(("ask_user",), ("ask_user",), ("ask_user",)),
    tape_in_parent=(
        "user: Buy a boat.",
        "calls q-1 l-shop: I need to know more.",
        "result q-1 ok: ",
        "result l-shop ok: seen shop",
        "calls q-2: ",
        "result q-2 ok: ",
        "answer: A large green one.",
        "user: And a sail.",
        "user: Never mind.",
        "calls q-3: One more thing.",
        "result q-3 cancelled: Not answered",
        "answer: Then never.",
    ),
)

BUDGETS = Scenario(
    "budgets",
    tools=("look",),
    settings={"max_rounds": 2, "settlement_rounds": 1},
    script=(
        call(("look", {"place": "one"}), text="First.", ids=["l-1"]),
        call(("look", {"place": "two"}), text="Second.", ids=["l-2"]),
        call(("look", {"place": "three"}), text="Third.", ids=["l-3"]),
        say("Three places, and no more budget.", chunks=4),
        call(("look", {"place": "four"}), ("look", {"place": "five"}), ids=["l-4", "l-5"]),
        say("Only four.", chunks=4),
    ),
    inputs=(Say("Look everywhere."), Say("Go on.", {"max_tool_calls": 1})),
    turns=(
        Turn("Three places, and no more budget.", 3, tool_calls=3, status="incomplete", stop_reason="max_rounds"),
        Turn("Only four.", 1, tool_calls=1, status="incomplete", stop_reason="max_tool_calls"),
    ),
    tape=(
        "user: Look everywhere.",
        "calls l-1: First.",
        "result l-1 ok: seen one",
        "calls l-2: Second.",
        "result l-2 ok: seen two",
        "calls l-3: Third.",
        "result l-3 ok: seen three",
        "answer: Three places, and no more budget.",
        "user: Go on.",
        "calls l-4 l-5: ",
        "result l-4 ok: seen four",
        "result l-5 error: Not run: the budget of tool calls",
        "answer: Only four.",
    ),
)

FAILURES = Scenario(
    "failures",
    tools=("look",),
    settings={"max_retries": 0},
    script=(
        call(("look", {"place": "yard"}), text="I look.", ids=["l-yard"]),
        error(500, "the machine is on fire"),
        error(500, "the machine is still on fire"),
        broken(say("Half of an ans", chunks=5)),
        say("The whole answer.", chunks=5),
        say("All is well."),
    ),
    inputs=(Say("Look."), Say("Once more."), Say("And now?")),
    turns=(
        Turn(
            "No answer could be written: the last model call failed. These tool results were gathered:\n"
            "- look: seen yard",
            1,
            tool_calls=1,
            status="incomplete",
            stop_reason="provider_error",
        ),
        Turn("The whole answer.", 0, status="incomplete", stop_reason="provider_error"),
        Turn("All is well.", 1),
    ),
    tape=(
        "user: Look.",
        "calls l-yard: I look.",
        "result l-yard ok: seen yard",
        "answer: No answer could be written",
        "user: Once more.",
        "partial: Half of an ans",
        "answer: The whole answer.",
        "user: And now?",
        "answer: All is well.",
    ),
)

EFFECTS = Scenario(
    "effects",
    tools=("look", "write", "rare", "settle", "done"),
    script=(
        call(("look", {"place": "quay"}), text="I look.", ids=["l-quay"]),
        call(("settle", {"summary": "The quay is empty."}), text="Settled so far.", ids=["t-1"]),
        call(("rare", {"x": 7}), ids=["r-7"]),
        call(
            ("done", {"answer": "The harbour is settled."}),
            ("write", {"name": "log"}),
            text="I end here.",
            ids=["d-1", "w-log"],
        ),
        say("You are welcome.", chunks=4),
    ),
    inputs=(Say("Settle the harbour."), Say("Thank you.")),
    turns=(
        Turn("The harbour is settled.", 4, tool_calls=5, stop_reason="terminated"),
        Turn("You are welcome.", 1),
    ),
    tape=(
        "user: Settle the harbour.",
        "calls l-quay: I look.",
        "result l-quay ok: seen quay",
        "calls t-1: Settled so far.",
        "result t-1 ok: settled",
        "calls r-7: ",
        "result r-7 ok: rare 7",
        "calls d-1 w-log: I end here.",
        "result d-1 ok: ended",
        "result w-log ok: wrote log",
        "answer: The harbour is settled.",
        "user: Thank you.",
        "answer: You are welcome.",
    ),
    effects=("rare 7", "write log"),
    alike=1,
)

QUEUED = Scenario(
    "queued",
    tools=("look",),
    script=(
        call(("look", {"place": "yard"}), text="I look.", ids=["l-1"]),
        say("The yard is empty, the roof is tight.", chunks=5),
        call(("look", {"place": "barn"}), text="I look again.", ids=["l-2"]),
        say("Then the cellar.", chunks=5),
    ),
    inputs=(
        Say("Look.", {"on_pending_input": "steer"}, queued=("Also the roof.", "And hurry.")),
        Say("Now the barn.", queued=("No, the cellar.",)),
        Say(None),
    ),
    turns=(
        Turn("The yard is empty, the roof is tight.", 2, tool_calls=1),
        Turn("I look again.", 1, tool_calls=1, status="incomplete", stop_reason="pending_input"),
        Turn("Then the cellar.", 1),
    ),
    tape=(
        "user: Look.",
        "calls l-1: I look.",
        "result l-1 ok: seen yard",
        "user: Also the roof.",
        "user: And hurry.",
        "answer: The yard is empty",
        "user: Now the barn.",
        "calls l-2: I look again.",
        "result l-2 ok: seen barn",
        "answer: I look again.",
        "user: No, the cellar.",
        "answer: Then the cellar.",
    ),
)

CANCELLED = Scenario(
    "cancelled",
    tools=("look",),
    script=(
        call(("look", {"place": "yard"}), text="I look.", ids=["l-1"]),
        hanging(say("Half of an answer that", chunks=4)),
        say("The rest of it.", chunks=4),
    ),
    inputs=(Say("Look.", cancel_after="I look.Half of an answer that"), Say("Go on.")),
    turns=(
        Turn("Half of an answer that", 1, tool_calls=1, status="cancelled", stop_reason="cancelled", told=False),
        Turn("The rest of it.", 1),
    ),
    tape=(
        "user: Look.",
        "calls l-1: I look.",
        "result l-1 ok: seen yard",
        "answer: Half of an answer that",
        "user: Go on.",
        "answer: The rest of it.",
    ),
    tape_in_parent=(
        "user: Look.",
        "user: Go on.",
        "calls l-1: I look.",
        "result l-1 ok: seen yard",
        "answer: Half of an answer that",
        "answer: The rest of it.",
    ),
)

_NO_TOOLS = {"error": {"message": "scripted does not support tools", "type": "invalid_request_error", "param": "tools"}}
_WRITTEN = 'I look.\n<tool_call>{"name": "look", "arguments": {"place": "yard"}}</tool_call>'

QUIRKS = Scenario(
    "quirks",
    tools=("look",),
    script=(
        error(400, _NO_TOOLS),
        say(_WRITTEN, think="I must look first, with a < b.", chunks=1),
        say("", think="It is empty."),
        say("One, tw", finish="length", chunks=2),
        say("o, three.", chunks=2),
        say("Nothing new.", think="Hm.", chunks=3),
    ),
    inputs=(Say("Count."), Say("And now?")),
    made_ids=True,
    turns=(Turn("One, two, three.", 4, tool_calls=1), Turn("Nothing new.", 1)),
    tape=(
        "user: Count.",
        "calls NEW: I look.",
        "result NEW ok: seen yard",
        "empty: ",
        "part: One, tw",
        "answer: o, three.",
        "user: And now?",
        "answer: Nothing new.",
    ),
)

_CITY = {
    "title": "City",
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 1}},
    "required": ["name", "people"],
}
_BERN = '{"name": "Bern", "people": 134000}'

STRUCTURED = Scenario(
    "structured",
    tools=("report",),
    response_format=_CITY,
    script=(
        call(("report", {"name": "Bern"}), text="I read.", ids=["r-bern"]),
        call(("read_tool_result", {"call_id": "r-bern", "offset": 3_000}), ids=["o-bern"]),
        say(_BERN, chunks=6),
        say("It is Basel.", chunks=4),
        say('{"name": "Basel", "people": "many"}'),
        say('{"name": "Basel", "people": 178000}'),
    ),
    inputs=(Say("Which city?"), Say("And the other one?")),
    turns=(Turn(_BERN, 3, tool_calls=2), Turn("It is Basel.", 1)),
    tape=(
        "user: Which city?",
        "calls r-bern: I read.",
        "result r-bern ok: Bern line 0",
        "calls o-bern: ",
        "result o-bern ok: ",
        f"answer: {_BERN}",
        "user: And the other one?",
        "answer: It is Basel.",
    ),
    structured={"name": "Basel", "people": 178_000},
    alike=1,
)

SCENARIOS = (
    CONVERSATION,
    BATCHES,
    APPROVALS,
    PARTLY,
    QUESTIONS,
    BUDGETS,
    FAILURES,
    EFFECTS,
    QUEUED,
    CANCELLED,
    QUIRKS,
    STRUCTURED,
)
