"""Finish reasons: what any provider's word for the end of a response means, and whether output was cut there."""

import re
from typing import assert_never

from turngraph.state.words import FinishKind

_WORDS: dict[FinishKind, str] = {
    "stop": """stop end_turn endturn stop_sequence stopsequence eos eos_token eos_found complete completed
        finish finished done success end finish_reason_stop""",
    "tool_calls": "tool_calls tool_call tool_use tooluse function_call function_calls",
    "length": """length max_tokens max_token max_length max_new_tokens max_output_tokens max_completion_tokens
        max_tokens_reached model_length token_limit incomplete finish_reason_max_tokens""",
    "context_window": """model_context_window_exceeded context_window_exceeded context_length_exceeded context_length
        context_window prompt_too_long error_limit""",
    "content_filter": """content_filter content_filtered contentfilter content_blocked guardrail_intervened guardrails
        refusal safety recitation language blocklist prohibited_content spii image_safety sensitive error_toxic
        moderation finish_reason_safety""",
    # The provider says itself that it broke off: no more of an ending than no reason at all.
    "missing": """null none undefined unknown finish_reason_unspecified error errored abort aborted cancelled canceled
        network_error insufficient_system_resource timeout user_cancel error_timeout""",
}
_BY_WORD: dict[str, FinishKind] = {word: kind for kind, words in _WORDS.items() for word in words.split()}


def finish_kind(raw: str | None) -> FinishKind:
    """The kind of a provider's finish reason, in any spelling (`MAX_TOKENS`, `maxTokens`, `FinishReason.STOP`).

    None, blank, and words that say the response broke off (`abort`, `network_error`) are `missing`; a word not known
    is `other`. Never raises, whatever a provider put in the field.
    """
    if raw is None:
        return "missing"
    word = str(raw).strip().rsplit(".", 1)[-1]
    if not word:
        return "missing"
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower()
    return _BY_WORD.get(re.sub(r"[\s-]+", "_", snake), "other")


def is_cut(kind: FinishKind, *, openai_wire: bool) -> bool:
    """True where the output stops before its own end.

    A missing reason counts only on the OpenAI wire, where every whole response carries one; other models may
    never name a reason, and their streams are whole when they end without an error.
    """
    match kind:
        case "length" | "context_window":
            return True
        case "missing":
            return openai_wire
        case "stop" | "tool_calls" | "content_filter" | "other":
            return False
        case _:
            assert_never(kind)
