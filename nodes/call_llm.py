"""`call_llm`: one logical round. Builds the view, streams, takes the message as it was normalised, counts usage."""

import asyncio
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, messages_from_dict

from turngraph.context.turns import last_visible_text
from turngraph.llm.call import RoundResult
from turngraph.nodes import texts
from turngraph.nodes.belt import Belt, belt_of
from turngraph.nodes.closing import finishing_text, gathered
from turngraph.nodes.compaction import make_room
from turngraph.nodes.model_call import Answered, CallPlan, Failed, Stopped, Tape, call_model, error_info, models_so_far
from turngraph.nodes.over_window import over_window
from turngraph.nodes.parts import Visit
from turngraph.nodes.receipts import kept_context
from turngraph.nodes.rules import AskAgain, EmptyTwice, FinishTurn, RoundFacts, RunTools, decide_round, spent_budget
from turngraph.nodes.structured import structured_value
from turngraph.state.anchors import NoteAnchor
from turngraph.state.calls import Marks
from turngraph.state.channels import Progress, TurnState, Update
from turngraph.state.errors import ProviderError
from turngraph.state.receipt import add_usage, no_usage
from turngraph.state.words import CallRole, StopReason
from turngraph.tools.redact import redact, telling


async def call_llm(state: TurnState, visit: Visit) -> Update:
    """One round. Never runs a tool, never asks a person.

    Raises ProviderError when the first round fails and nothing was gathered; the thread stays valid.
    """
    if (lost := await _lost_batch(state, visit)) is not None:
        return lost
    emit = visit.emit(visit.shown + 1)
    emit("round_started")
    belt = belt_of(visit, state)
    tape = Tape(state["messages"], list(state.get("anchors", [])))
    try:
        summaries = await make_room(visit, tape, belt, emit)
    except asyncio.CancelledError:
        return _stopped(visit, Stopped("cancelled", None, [], visit.progress["models"], no_usage()))
    outcome = await call_model(visit, tape, CallPlan(belt, seconds=visit.time_left()), emit)
    outcome = replace(outcome, anchors=[*summaries, *outcome.anchors])
    match outcome:
        case Answered():
            return await _answered(state, visit, outcome, tape, belt)
        case Stopped():
            return _stopped(visit, outcome)
        case Failed():
            return await _failed(state, visit, outcome)


async def _lost_batch(state: TurnState, visit: Visit) -> Update | None:
    """The round whose tools were started before a crash, where the crash came before LangGraph had saved it.

    Its calls are then settled or reported from the journal; a new model call would ask for the same effects again.
    """
    if not (visit.scope.continued and visit.can_pause):
        return None
    visit.scope.claimed = frozenset(await visit.journal.lookup(visit.thread, visit.turn_id))
    for record in await visit.journal.open_turns(visit.thread):
        if record["turn_id"] != visit.turn_id or not record.get("batch"):
            continue
        if record.get("saved"):  # the turn reached its end, and is run again from an earlier checkpoint
            begun = {"saved": False, "finished": False, "batch": None}
            await visit.journal.update_turn(visit.thread, visit.turn_id, begun)
            continue
        message = messages_from_dict([record["batch"]])[0]
        if all(known.id != message.id for known in state["messages"]):
            again = {"rounds": visit.progress["rounds"] + 1, "next": "tools"}
            return {"messages": [message], "progress": {**visit.progress, **again}}
    visit.scope.continued = False
    return None


def mark(message: AIMessage, visit: Visit, number: int, role: str, result: RoundResult | None = None) -> AIMessage:
    """The message with turngraph's marks, in the form in which it is stored."""
    marks: Marks = {"turn_id": visit.turn_id, "round": number, "role": role}
    if result is not None:
        marks["finish"] = result.finish
        if result.problems:
            marks["problems"] = result.problems
    kwargs: dict[str, Any] = {**message.additional_kwargs, "turngraph": marks}
    return message.model_copy(update={"additional_kwargs": kwargs, "id": message.id or str(uuid4())})


def note(visit: Visit, after_message_id: str, text: str) -> NoteAnchor:
    """An instruction to the model, placed after a message for the rest of the turn."""
    return {
        "id": str(uuid4()),
        "kind": "note",
        "turn_id": visit.turn_id,
        "after_message_id": after_message_id,
        "text": text,
    }


def _progress(visit: Visit, outcome: Answered | Stopped | Failed, **changes: Any) -> Progress:
    """The progress after a call: usage, seconds, models, and what the caller changes."""
    progress = {
        **visit.progress,
        "usage": add_usage(visit.progress["usage"], outcome.usage),
        "seconds": visit.seconds(),
        "models": models_so_far(visit.progress, outcome),
        **changes,
    }
    return cast(Progress, progress)


async def _answered(state: TurnState, visit: Visit, outcome: Answered, tape: Tape, belt: Belt) -> Update:
    """Decides what the round was and what follows from it."""
    result, number = outcome.result, visit.shown + 1
    facts = RoundFacts(
        calls=len(result.message.tool_calls),
        cut_calls=sum(problem["code"] == "cut_off" for problem in result.problems.values()),
        text=result.message.text,
        cut=result.cut,
        finish=result.finish,
    )
    decision = decide_round(facts, visit.progress, visit.settings)
    # An empty round may hold white space, which is no part of the answer.
    role: CallRole = "narration" if facts.calls or not facts.text.strip() else "finish"
    visit.emit(number)("round_finished", call_role=role, finish_reason=result.finish, usage=dict(result.usage))
    changes: dict[str, Any] = {
        "rounds": visit.progress["rounds"] + 1,
        "context": kept_context(outcome.seen.report),
    }
    if (calibration := _calibration(visit, outcome)) is not None:
        changes["calibration"] = calibration
    anchors: list[Any] = list(outcome.anchors)
    stored = "narration"
    match decision:
        case RunTools(cut=cut):
            changes |= {"next": "tools", "cut_batches": visit.progress.get("cut_batches", 0) + int(cut)}
        case AskAgain(why=why):
            stored = "empty" if why == "empty" else "part"
            changes["next"] = "again"
            if why == "empty":
                changes["nudges"] = visit.progress.get("nudges", 0) + 1
            else:
                changes["continuations"] = visit.progress.get("continuations", 0) + 1
            text = texts.NUDGE if why == "empty" else texts.CONTINUE
            anchors.append(note(visit, result.message.id or "", text))
            after = _progress(visit, outcome, **changes)
            if (spent := spent_budget(after, visit.settings, visit.parts.min_rounds)) is not None:
                changes |= {"next": "forced", "reason": spent}
        case FinishTurn(reason=reason):
            stored = "finish"
            changes |= {"next": "final", "reason": reason, "final": {"kind": "round"}}
        case EmptyTwice():
            stored = "empty"
            earlier = last_visible_text(state["messages"], visit.turn_id)
            changes |= {"reason": "empty_response", "next": "final" if earlier else "forced"}
            if earlier:
                changes["final"] = {"kind": "text", "text": earlier}
    message = mark(result.message, visit, number, stored, result)
    update: Update = {"messages": [message], "anchors": anchors}
    progress = _progress(visit, outcome, **changes)
    if isinstance(decision, FinishTurn):
        answer = finishing_text([*state["messages"], message], visit.turn_id)
        update |= await fill(visit, Tape([*tape.messages, message], tape.anchors), belt, answer, progress)
    return {**update, "progress": progress}


async def fill(visit: Visit, tape: Tape, belt: Belt, answer: str, progress: Progress) -> Update:
    """The update with the structured value of an answer, where one was asked for; counts its cost in `progress`."""
    found = await structured_value(visit, tape, belt, answer)
    if found is None:
        return {}
    progress["usage"] = add_usage(progress["usage"], found.usage)
    progress["seconds"] = visit.seconds()
    if found.error is not None:
        progress["structured_error"] = found.error
    return {"structured": found.value}


def _calibration(visit: Visit, outcome: Answered) -> float | None:
    """How much the provider counts where we count one token; None where it reported nothing."""
    usage, used = outcome.result.usage, outcome.seen.report.get("used", 0)
    if usage.get("estimated") or not used or not usage.get("input_tokens"):
        return None
    ratio = usage["input_tokens"] / used * visit.progress.get("calibration", 1.0)
    return round(min(4.0, max(0.5, ratio)), 3)


def _partial(visit: Visit, partial: RoundResult | None, number: int, cut: str) -> list[AIMessage]:
    """What was streamed before a call was cut short, without its calls, marked, as a message of the tape.

    Text of a cancelled run is the turn's answer; any other broken text is followed by a forced finish.
    """
    if partial is None or not partial.message.text:
        return []
    bare = partial.message.model_copy(update={"tool_calls": [], "invalid_tool_calls": []})
    kept = mark(bare, visit, number, "finish" if cut == "cancelled" else "partial")
    kept.additional_kwargs["turngraph"]["cut"] = cut
    return [kept]


def _stopped(visit: Visit, outcome: Stopped) -> Update:
    """Our own stop: the time budget goes to a forced finish, a cancelled run to its end."""
    number = visit.shown + 1
    kept = _partial(visit, outcome.partial, number, outcome.why)
    cancelled = outcome.why == "cancelled"
    role: CallRole = "finish" if cancelled and kept else "narration"
    visit.emit(number)("round_finished", call_role=role, finish_reason=outcome.why, usage=dict(outcome.usage))
    uncounted = visit.progress["uncounted"] + 1
    changes: dict[str, Any] = {"reason": outcome.why, "next": "forced", "uncounted": uncounted}
    if cancelled:
        text = kept[0].text if kept else texts.CANCELLED_ANSWER
        changes |= {"next": "final", "final": {"kind": "round"} if kept else {"kind": "text", "text": text}}
    return {"messages": kept, "anchors": outcome.anchors, "progress": _progress(visit, outcome, **changes)}


async def _failed(state: TurnState, visit: Visit, outcome: Failed) -> Update:
    """A provider's failure: raised while nothing was gathered, else a forced finish with what there is."""
    number = visit.shown + 1
    error = error_info(outcome)
    kept = _partial(visit, outcome.partial, number, "broken")
    results = gathered(state["messages"], visit.turn_id)
    reason: StopReason = "context_window" if outcome.fault.kind == "overflow" else "provider_error"
    uncounted = visit.progress["uncounted"] + 1
    changes: dict[str, Any] = {
        "reason": reason,
        "error": error,
        "next": "forced",
        "uncounted": uncounted,
        "context": kept_context(outcome.seen.report),
    }
    if reason == "context_window":
        told = f"{texts.fallback(reason, results)}\n{texts.after_overflow(over_window(outcome.seen.report))}"
        text = last_visible_text(state["messages"], visit.turn_id) or told
        changes |= {"next": "final", "final": {"kind": "text", "text": text}}
    elif visit.progress["rounds"] == 0 and not kept:
        await visit.journal.update_turn(visit.thread, visit.turn_id, {"error": error, "reason": reason})
        said = f"The model call failed: {redact(str(outcome.error))}"
        raise ProviderError(said, outcome.fault) from telling(outcome.error)
    visit.emit(number)("round_finished", call_role="narration", finish_reason="error", usage=dict(outcome.usage))
    return {"messages": kept, "anchors": outcome.anchors, "progress": _progress(visit, outcome, **changes)}
