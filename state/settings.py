"""TurnSettings: everything a caller may set for one turn, with bounds; the assistant's configuration form."""

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turngraph.state.words import OnPendingInput, Permission, PermissionMode, TextTools

DEFAULT_CONTEXT_WINDOW = 32_768
DEFAULT_OUTPUT_RESERVE = 4_096
SAFETY_MARGIN = 0.05
MAX_ROUNDS_CEILING = 10_000


def _on(*nodes: str, kind: str | None = None) -> dict[str, Any]:
    """Studio's hints: the nodes that a field belongs to, and its widget where it is not plain."""
    hints: dict[str, Any] = {"langgraph_nodes": list(nodes)}
    if kind:
        hints["langgraph_type"] = kind
    return hints


class _Strict(BaseModel):
    """A model that refuses unknown fields and names the known ones."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields_only(cls, data: Any) -> Any:
        if isinstance(data, dict):
            unknown = [str(key) for key in data if key not in cls.model_fields]
            if unknown:
                close = get_close_matches(unknown[0], cls.model_fields, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise ValueError(
                    f"unknown {cls.__name__} field(s): {', '.join(sorted(unknown))}.{hint}"
                    f" Known fields: {', '.join(sorted(cls.model_fields))}"
                )
        return data


class ModelProfile(_Strict):
    """What one model accepts. None in a field: not known, learn it from what the provider refuses."""

    reasoning_back: bool | None = Field(None, description="Send stored reasoning back with its message.")
    opens_think: bool | None = Field(
        None,
        description="The chat template opens the thinking block itself: text before the first closing tag is thinking.",
    )
    system_messages: bool | None = Field(
        None, description="Takes a system message. False: its text is put in front of the first user message."
    )
    alternate_roles: bool | None = Field(
        None, description="Wants user and assistant in strict alternation: neighbours of one role are merged."
    )
    string_tool_content: bool | None = Field(None, description="Tool messages must be one string, never blocks.")
    tool_choice: bool | None = Field(None, description="Takes the tool_choice parameter.")
    stream_usage: bool | None = Field(None, description="Takes stream_options.include_usage.")
    native_tools: bool | None = Field(None, description="Takes the tools parameter. False: the text protocol is used.")


class TurnSettings(_Strict):
    """Settings of one turn. Every field is optional; unknown fields are refused with the list of known ones.

    Units: tokens, seconds and counts as the field's description says; fractions are of the room for messages.
    """

    model: str | None = Field(
        None,
        title="Model",
        description='Model such as "openai:gpt-5-mini", "local:/path/model.gguf", "local" or "offline". '
        "None: the model given to build_turn_graph, then TURNGRAPH_MODEL, then offline.",
        json_schema_extra=_on("call_llm", "forced_finish"),
    )
    system_prompt: str = Field(
        "You are a helpful assistant.",
        title="System prompt",
        description="The base text of the one system message.",
        json_schema_extra=_on("call_llm", "forced_finish", kind="prompt"),
    )
    temperature: float | None = Field(
        None,
        ge=0,
        le=2,
        title="Temperature",
        description="Sampling temperature; None leaves it to the provider.",
        json_schema_extra=_on("call_llm"),
    )
    max_output_tokens: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        title="Output tokens per call",
        description="Upper bound of one model call's output, and the reserve kept free for it (None: 4,096 reserved).",
        json_schema_extra=_on("call_llm", "forced_finish"),
    )
    context_window: int | None = Field(
        None,
        ge=512,
        le=100_000_000,
        title="Context window",
        description="Window of the model in tokens. None: the model's profile, else 32,768.",
        json_schema_extra=_on("prepare_turn", "call_llm"),
    )
    max_rounds: int = Field(
        25,
        ge=1,
        le=MAX_ROUNDS_CEILING,
        title="Rounds",
        description="LLM rounds of one turn before it is made to finish.",
        json_schema_extra=_on("fold_checkpoint"),
    )
    settlement_rounds: int = Field(
        0,
        ge=0,
        le=100,
        title="Settlement rounds",
        description="Extra rounds with tools after the round budget, in which the model is told to settle.",
        json_schema_extra=_on("fold_checkpoint"),
    )
    max_continuations: int = Field(
        2,
        ge=0,
        le=20,
        title="Continuations",
        description="How often a cut answer is continued.",
        json_schema_extra=_on("call_llm"),
    )
    max_tool_calls: int = Field(
        128,
        ge=0,
        le=100_000,
        title="Tool calls",
        description="Tool calls of one turn; each call past it gets a refusal.",
        json_schema_extra=_on("dispatch_tools"),
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000_000,
        title="Token budget",
        description="Input plus output tokens of all calls of one turn.",
        json_schema_extra=_on("fold_checkpoint"),
    )
    max_seconds: float | None = Field(
        None,
        gt=0,
        le=31_536_000,
        title="Time budget",
        description="Seconds of work in one turn; waiting for a person is free.",
        json_schema_extra=_on("call_llm", "dispatch_tools", "fold_checkpoint"),
    )
    max_parallel_tools: int = Field(
        8,
        ge=1,
        le=1_000,
        title="Parallel tools",
        description="Tool calls that run at the same time.",
        json_schema_extra=_on("dispatch_tools"),
    )
    max_retries: int = Field(
        2,
        ge=0,
        le=20,
        title="Retries",
        description="Repeats of one model call that failed before any visible output.",
        json_schema_extra=_on("call_llm", "forced_finish"),
    )
    tool_timeout: float = Field(
        60.0,
        gt=0,
        le=86_400,
        title="Tool timeout",
        description="Seconds that one tool call may take.",
        json_schema_extra=_on("dispatch_tools"),
    )
    max_tool_output_tokens: int = Field(
        8_000,
        ge=64,
        le=100_000_000,
        title="Tool output tokens",
        description="Longer results are cut to head and tail.",
        json_schema_extra=_on("dispatch_tools"),
    )
    permission_mode: PermissionMode = Field(
        "declared",
        title="Permission mode",
        description="declared: as tools say; ask_all: ask before every tool; full_access: never ask. deny always wins.",
        json_schema_extra=_on("dispatch_tools"),
    )
    permissions: dict[str, Permission] = Field(
        {},  # pydantic copies it; a factory's value would be missing in the form
        title="Permissions",
        description="Tool name to allow, ask or deny.",
        json_schema_extra=_on("dispatch_tools"),
    )
    protected_turns: int = Field(
        2,
        ge=0,
        le=1_000,
        title="Protected turns",
        description="Newest earlier turns that are never dropped whole.",
        json_schema_extra=_on("call_llm"),
    )
    compact_at: float = Field(
        0.8,
        gt=0,
        le=1,
        title="Compact at",
        description="Fraction of the room at which old turns are summarised.",
        json_schema_extra=_on("call_llm"),
    )
    fold_at: float = Field(
        0.6,
        gt=0,
        le=1,
        title="Fold at",
        description="Fraction of the room at which old results of this turn are folded.",
        json_schema_extra=_on("fold_checkpoint"),
    )
    text_tools: TextTools = Field(
        "auto",
        title="Text tools",
        description="Text protocol for tool calls: auto (where native tools are refused), always, never.",
        json_schema_extra=_on("call_llm"),
    )
    stream_interval_ms: int = Field(
        0,
        ge=0,
        le=10_000,
        title="Stream interval",
        description="Batches deltas, in milliseconds; 0 sends each at once.",
        json_schema_extra=_on("call_llm", "forced_finish"),
    )
    on_pending_input: OnPendingInput = Field(
        "yield",
        title="On new input",
        description="Input queued during the turn: yield ends the turn after its batch, steer adds it to the turn.",
        json_schema_extra=_on("fold_checkpoint"),
    )
    enabled_tools: list[str] | None = Field(
        None,
        title="Enabled tools",
        description="Names of the tools to offer; None offers all.",
        json_schema_extra=_on("prepare_turn"),
    )
    active_skills: list[str] = Field(
        [],
        title="Active skills",
        description="Skills that are active from the first round on.",
        json_schema_extra=_on("prepare_turn"),
    )
    model_profile: ModelProfile = Field(
        ModelProfile(),
        title="Model profile",
        description="What the model accepts; empty fields are learned.",
        json_schema_extra=_on("call_llm"),
    )

    def stored(self) -> dict[str, Any]:
        """The fields that differ from the defaults, as plain JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)
