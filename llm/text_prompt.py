"""The text protocol in words: how tools are described to a model, and history for one that has no native tools."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from turngraph.llm.text_parser import TextCallParser, strip_call_markup
from turngraph.llm.think import split_think

_PROMPT = """\
# Tools

You can call tools. To call one, write a block of exactly this form:

<tool_call>
{{"name": "tool name", "arguments": {{"parameter": "value"}}}}
</tool_call>

- "arguments" is one JSON object that fits the parameters of the tool, {{}} where it needs none. It is valid JSON: \
double quotes, and \\n for a line break inside text.
- To call several tools at once, write several blocks, one after the other.
- A block inside a code fence, inside quotation marks or in your reasoning is not run.
- After the last block, stop and wait. The results come in the next message, each in a <tool_result> element. Never \
write a <tool_result> yourself.
- If you need no tool, answer in plain text without any block.

The tools that you can call, one JSON object a line, with the JSON schema of their parameters:
{tools}"""


_NATIVE = frozenset({"tool_calls", "function_call"})


def tools_prompt(tools: Sequence[Any]) -> str:
    """A section for the system prompt: how to write calls, and `tools` (OpenAI function schemas or LangChain tools).

    Tools that a provider runs on its own side cannot be called in text and are left out; empty where none is left.
    """
    described = [json.dumps(each, ensure_ascii=False) for tool in tools if (each := _description(tool))]
    return _PROMPT.format(tools="\n".join(described)) if described else ""


def _description(tool: Any) -> dict[str, Any] | None:
    if isinstance(tool, Mapping):
        function = tool.get("function", tool)
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        if "function" not in tool and tool.get("type", "function") != "function":
            return None
    else:
        function = convert_to_openai_tool(tool)["function"]
    kept = {key: function[key] for key in ("name", "description", "parameters") if function.get(key)}
    if "parameters" not in kept and "input_schema" in function:
        kept["parameters"] = function["input_schema"]
    return kept


def render_for_text(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """History as text: calls in the tags of the protocol, results in user messages. Pure; nothing else changes.

    Results that follow each other, and the user message after them, become one message with the id of the first, so
    that roles alternate. Text that holds the calls of its message already, as the model wrote them, stays as it is.
    """
    out: list[BaseMessage] = []
    names: dict[str, str] = {}
    after_result = False
    for message in messages:
        is_result = isinstance(message, ToolMessage)
        match message:
            case ToolMessage():
                shown: BaseMessage = HumanMessage(_result_content(message, names), id=message.id)
            case AIMessage() if message.tool_calls or message.invalid_tool_calls:
                names.update({call["id"]: call["name"] for call in message.tool_calls if call["id"]})
                shown = _with_calls_as_text(message)
            case _:
                shown = message
        if after_result and isinstance(shown, HumanMessage):
            out[-1] = _merged(out[-1], shown)
        else:
            out.append(shown)
        after_result = is_result
    return out


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """One call as the protocol writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def _with_calls_as_text(message: AIMessage) -> AIMessage:
    text = str(message.text)
    calls = [(call["name"], call["args"]) for call in message.tool_calls]
    if _calls_in(text, [name for name, _ in calls]) != calls:
        blocks = [call_text(name, args) for name, args in calls]
        text = "\n".join(each for each in (strip_call_markup(text), *blocks) if each)
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key not in _NATIVE}
    return message.model_copy(
        update={"content": text, "tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": kwargs}
    )


def _calls_in(text: str, names: Sequence[str]) -> list[tuple[str, Any]]:
    """The calls that the text holds, read as they were when it was streamed."""
    content, _ = split_think(text)
    parser = TextCallParser(names, protocol=True)
    pieces = parser.feed(content) + parser.flush()
    return [(piece[1].name, piece[1].arguments) for piece in pieces if piece[0] == "call"]


def _result_content(message: ToolMessage, names: Mapping[str, str]) -> str | list[str | dict[str, Any]]:
    """The result in its element; blocks that are no text follow it. Its own closing tags cannot end the element."""
    name = message.name or names.get(message.tool_call_id, "")
    status = "error" if message.status == "error" else ""
    attributes = {"name": name, "call_id": message.tool_call_id, "status": status}
    head = "".join(f" {key}={json.dumps(value, ensure_ascii=False)}" for key, value in attributes.items() if value)
    body = message.text.replace("</tool_result", "<\\/tool_result")
    text = f"<tool_result{head}>\n{body}\n</tool_result>"
    others: list[str | dict[str, Any]] = [
        block
        for block in (message.content if isinstance(message.content, list) else ())
        if isinstance(block, dict) and block.get("type") != "text"
    ]
    return [{"type": "text", "text": text}, *others] if others else text


def _merged(first: BaseMessage, second: BaseMessage) -> HumanMessage:
    """Two user messages as one, with the first's id; text stays one string where both are text."""
    if isinstance(first.content, str) and isinstance(second.content, str):
        return HumanMessage(f"{first.content}\n\n{second.content}", id=first.id)
    return HumanMessage([*_blocks(first), *_blocks(second)], id=first.id)


def _blocks(message: BaseMessage) -> list[str | dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}]
    return list(message.content)
