"""Input that was queued for a running turn: reading it, and removing what the tape already holds."""

from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict

from turngraph.nodes.parts import Visit
from turngraph.state.channels import TurnState


async def take_queued(visit: Visit, state: TurnState) -> list[BaseMessage]:
    """Messages that wait for the turn, oldest first, duplicates dropped by id.

    What a saved checkpoint already holds is removed from the queue; the rest stays there until one does.
    """
    waiting: list[tuple[str, Any]] = await visit.journal.queued(visit.thread)
    if not waiting:
        return []
    held = {message.id for message in state["messages"]}
    if arrived := [message_id for message_id, _ in waiting if message_id in held]:
        await visit.journal.dequeue(visit.thread, arrived)
    return [messages_from_dict([raw])[0] for message_id, raw in waiting if message_id not in held]
