"""What a response says about itself beside its text: why it ended, which model wrote it, what it cost."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from turngraph.llm.pieces import PROVIDER
from turngraph.llm.storable import clean_value
from turngraph.llm.usage import UsageMeter

_FINISH_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
_NAME_KEYS = ("model_name", "model", "model_id")

_LEFT_OUT = frozenset(
    {"token_usage", "usage", "usage_metadata", "logprobs", "headers", "model_provider", "output_version"}
)


def raw_finish(metadata: Mapping[str, Any]) -> str | None:
    """The provider's word for the end; for the Responses API, why it is incomplete."""
    details = metadata.get("incomplete_details")
    if isinstance(details, Mapping) and details.get("reason"):
        return str(details["reason"])
    found = _first(metadata, _FINISH_KEYS)
    return None if found is None else str(found)


def model_name(metadata: Mapping[str, Any]) -> str:
    """The name that the model gives itself, or blank."""
    return str(_first(metadata, _NAME_KEYS) or "")


def kept_metadata(metadata: Mapping[str, Any], finish: str | None, provider: str) -> dict[str, Any]:
    """The metadata as the message keeps it, in the names that LangChain uses. `provider`: who wrote the response."""
    kept = {key: value for key, value in metadata.items() if key not in _LEFT_OUT}
    if finish is not None:
        kept["finish_reason"] = finish
    if name := _first(metadata, _NAME_KEYS):
        kept["model_name"] = name
    stored: dict[str, Any] = clean_value(kept)
    return {**stored, "model_provider": PROVIDER, "inner_provider": provider}


def meter_of(usages: Sequence[Mapping[str, Any]], *, running_totals: bool) -> UsageMeter:
    """A meter that has seen every report of one response. `running_totals`: reports are known to be such."""
    meter = UsageMeter()
    for usage in [_summed(usages)] if not running_totals and _are_parts(usages) else usages:
        meter.observe(usage)
    return meter


def _are_parts(usages: Sequence[Mapping[str, Any]]) -> bool:
    """True where reports are the differences that LangChain's adapters make: the input counts once only."""
    inputs = [usage.get("input_tokens", 0) for usage in usages]
    return any(later < earlier for earlier, later in pairwise(inputs))


def _first(values: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((values[key] for key in keys if values.get(key) is not None), None)


def _summed(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All reports of one response added up, field by field."""
    total: dict[str, Any] = {}
    for usage in usages:
        for key, value in usage.items():
            if isinstance(value, Mapping):
                total[key] = _summed([total.get(key, {}), value])
            elif isinstance(value, int | float):
                total[key] = total.get(key, 0) + value
    return total
