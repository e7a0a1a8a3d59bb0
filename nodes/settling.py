"""Settling a batch: from outcomes to the tape's tool messages, the counts, and what the tools asked of the turn."""

from typing import cast
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import BaseMessage, messages_from_dict

from turngraph.context.budget import budget_of
from turngraph.context.tokens import count_text
from turngraph.nodes import texts
from turngraph.nodes.closing import marks_of, tool_message
from turngraph.nodes.parts import Visit
from turngraph.nodes.work import BatchWork
from turngraph.state.calls import CallOutcome
from turngraph.state.channels import BatchEffects, Original, Progress, Update
from turngraph.tools.results import cap, share_caps

BATCH_SHARE = 0.5
"""How much of the room for messages the results of one batch may take together."""

_SMALL = 8_000
"""Characters that fit any window; below that nothing is counted."""


async def fit_window(visit: Visit, work: BatchWork) -> None:
    """Cuts the largest results of a batch further where together they would fill the window; a person's words stay."""
    texts_of = {
        call_id: result["content"]
        for call_id, result in work.outcomes.items()
        if isinstance(result["content"], str) and work.role_of(call_id) == "tool"
    }
    if sum(map(len, texts_of.values())) <= _SMALL:
        return
    model, _ = await visit.model()
    budget = budget_of(visit.windowed(model), work.belt.offered, visit.progress.get("calibration", 1.0))
    sizes = [count_text(text) for text in texts_of.values()]
    caps = share_caps(sizes, int(budget.room * BATCH_SHARE))
    for (call_id, text), size, limit in zip(texts_of.items(), sizes, caps, strict=True):
        if limit < size:
            result = work.outcomes[call_id]
            whole = result.get("full", text)
            work.outcomes[call_id] = {**result, "content": cap(whole, limit, call_id, count_text).text, "full": whole}


def settle(visit: Visit, work: BatchWork, *, cancelled: bool = False) -> Update:
    """Every call has its outcome: one tool message each, in call order, and what the tools asked of the turn."""
    number = marks_of(work.message).get("round", 0)
    results = [work.outcomes[call["id"]] for call in work.calls]
    messages = [tool_message(result, visit.turn_id, number, work.role_of(result["call_id"])) for result in results]
    progress = counted(visit, work)
    progress["next"] = "fold"
    if cancelled:
        progress |= {"next": "final", "reason": "cancelled", "final": {"kind": "text", "text": texts.CANCELLED_ANSWER}}
    if effects := _effects(results):
        progress["effects"] = effects
    for field, effect in (("loaded", "load_tools"), ("skills", "activate_skills")):
        names = [name for result in results for name in result.get("effects", {}).get(effect, ())]
        if names:
            before: list[str] = progress.get(field, [])  # type: ignore[assignment]
            progress[field] = list(dict.fromkeys([*before, *names]))  # type: ignore[literal-required]
    return {
        "messages": [*messages, *_besides(results, visit.turn_id, {message.id for message in work.state["messages"]})],
        "progress": progress,
        "batch": None,
        "originals": _originals(results),
        "grants": work.grants(),
    }


def _besides(results: list[CallOutcome], turn_id: str, taken: set[str | None]) -> list[BaseMessage]:
    """What tools said besides their results, after the batch. No message on the tape is replaced by it."""
    added: list[BaseMessage] = []
    for result in results:
        for at, message in enumerate(messages_from_dict(result.get("update", {}).get("messages", []))):
            if not message.id or message.id in taken:
                message.id = str(uuid5(NAMESPACE_OID, f"{turn_id}:{result['call_id']}:{at}"))
            taken.add(message.id)
            added.append(message)
    return added


def counted(visit: Visit, work: BatchWork) -> Progress:
    """The progress with this pass counted in."""
    progress = cast(Progress, dict(visit.progress))
    progress["tool_calls"] = visit.progress["tool_calls"] + work.counted
    progress["tool_errors"] = visit.progress["tool_errors"] + work.errors
    progress["seconds"] = visit.seconds()
    return progress


def _effects(results: list[CallOutcome]) -> BatchEffects:
    """What the batch asked of the turn; of several terminating tools the first one's text is the answer."""
    effects: BatchEffects = {}
    for result in results:
        asked = result.get("effects", {})
        if asked.get("context_checkpoint"):
            point = {"call_id": result["call_id"], "text": asked["context_checkpoint"]}
            effects.setdefault("checkpoints", []).append(point)
        if asked.get("terminate") is not None and "terminate" not in effects:
            effects["terminate"] = asked["terminate"]
    return effects


def _originals(results: list[CallOutcome]) -> list[Original]:
    """The whole texts of the results that were cut."""
    return [{"call_id": result["call_id"], "text": result["full"]} for result in results if "full" in result]
