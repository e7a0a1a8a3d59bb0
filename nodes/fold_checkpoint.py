"""`fold_checkpoint`: closes the round: fold, no progress, new input, a tool's own end, budget. Deletes no message."""

from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, ToolMessage

from turngraph.context.fold import plan_fold
from turngraph.context.turns import last_visible_text
from turngraph.nodes import texts
from turngraph.nodes.belt import belt_of
from turngraph.nodes.call_llm import note
from turngraph.nodes.closing import of_turn
from turngraph.nodes.parts import Visit
from turngraph.nodes.queued import remove_when_saved, take_queued
from turngraph.nodes.rules import EndNow, ForceFinish, GoOn, decide_fold
from turngraph.nodes.terms import terms_of
from turngraph.state.anchors import Anchor, FoldAnchor
from turngraph.state.channels import Progress, TurnState, Update
from turngraph.tools.policy import policy_of
from turngraph.tools.progress_guard import observe
from turngraph.tools.texts import NO_PROGRESS_CORRECTION


async def fold_checkpoint(state: TurnState, visit: Visit) -> Update:
    """Applies what the batch asked of the turn and decides whether the loop goes on. A cancelled turn just passes."""
    if visit.progress.get("reason") == "cancelled":
        return {}
    progress = cast(Progress, {key: value for key, value in visit.progress.items() if key != "effects"})
    effects = visit.progress.get("effects", {})
    anchors: list[Anchor] = [_fold(visit, state, point) for point in effects.get("checkpoints", [])]
    for anchor in anchors:
        fold = cast(FoldAnchor, anchor)
        visit.emit(visit.shown)("checkpoint_folded", call_id=fold["call_id"], folded=_folded(state, visit, fold))
    snapshot, verdict = _guard(state, visit)
    if verdict == "correct":
        anchors.append(note(visit, state["messages"][-1].id or "", NO_PROGRESS_CORRECTION))
    queued = await take_queued(visit, state)
    yields = bool(queued) and visit.settings.on_pending_input == "yield"
    decision = decide_fold(
        progress,
        visit.settings,
        terminated="terminate" in effects,
        yields=yields,
        stuck=verdict == "stop",
        min_rounds=visit.parts.min_rounds,
    )
    changes: dict[str, Any] = {"guard": snapshot}
    steered: list[Any] = []
    match decision:
        case GoOn(settle=left):
            changes["next"] = "again"
            steered = queued
            remove_when_saved(visit, steered)
            if left is not None:
                anchors.append(note(visit, state["messages"][-1].id or "", texts.settle(left)))
            anchors.extend(await _automatic(state, visit, anchors))
        case ForceFinish(reason=reason):
            changes |= {"next": "forced", "reason": reason}
        case EndNow(reason="terminated"):
            changes |= {
                "next": "final",
                "reason": "terminated",
                "final": {"kind": "text", "text": effects["terminate"]},
            }
        case EndNow(reason=reason):
            said = last_visible_text(state["messages"], visit.turn_id) or texts.PENDING_INPUT
            changes |= {"next": "final", "reason": reason, "final": {"kind": "text", "text": said}}
    changes["folds"] = progress.get("folds", 0) + len(anchors_of(anchors, "fold"))
    return {"messages": steered, "anchors": anchors, "progress": {**progress, **changes, "seconds": visit.seconds()}}


def anchors_of(anchors: list[Anchor], kind: str) -> list[Anchor]:
    """The anchors of one kind."""
    return [anchor for anchor in anchors if anchor["kind"] == kind]


def _fold(visit: Visit, state: TurnState, point: dict[str, str]) -> FoldAnchor:
    """The anchor of a tool's checkpoint: everything of the turn before its batch leaves the view."""
    mine = of_turn(state["messages"], visit.turn_id)
    through = ""
    for message in mine:
        if isinstance(message, AIMessage) and any(call["id"] == point["call_id"] for call in message.tool_calls):
            break
        through = message.id or through
    return {
        "id": str(uuid4()),
        "kind": "fold",
        "turn_id": visit.turn_id,
        "call_id": point["call_id"],
        "through_message_id": through,
        "text": point["text"],
        "why": "context_checkpoint",
    }


def _folded(state: TurnState, visit: Visit, fold: FoldAnchor) -> int:
    """How many messages of the turn a tool's checkpoint stands for."""
    mine = [message.id for message in of_turn(state["messages"], visit.turn_id)]
    through = fold.get("through_message_id", "")
    return mine.index(through) + 1 if through in mine else 0


async def _automatic(state: TurnState, visit: Visit, new: list[Anchor]) -> list[Anchor]:
    """An automatic fold of old closed results, where the request that comes next takes too much of the room."""
    model, _ = await visit.model()
    terms = terms_of(visit, model, belt_of(visit, state))
    planned = plan_fold(state["messages"], [*state.get("anchors", []), *new], terms)
    if planned is None:
        return []
    visit.emit(visit.shown)("checkpoint_folded", call_id="", folded=len(planned.get("message_ids", [])))
    return [planned]


def _guard(state: TurnState, visit: Visit) -> tuple[dict[str, Any], str]:
    """What the no-progress guard says of the batch that was just closed."""
    mine = of_turn(state["messages"], visit.turn_id)
    results = {message.tool_call_id: message for message in mine if isinstance(message, ToolMessage)}
    snapshot = visit.progress.get("guard", {})
    for message in reversed(mine):
        if isinstance(message, AIMessage) and message.tool_calls:
            calls = [{"id": c["id"], "name": c["name"], "args": c["args"]} for c in message.tool_calls]
            texts_of = {call_id: result.text for call_id, result in results.items()}
            polling = {name for name, tool in visit.parts.tools.items() if policy_of(tool).polling}
            return observe(snapshot, calls, texts_of, polling)
    return snapshot, "go"
