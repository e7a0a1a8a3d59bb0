"""B50: text in any script, images, schemas and the system prompt are counted, so that budgets trigger in time."""

import pytest
from langchain_core.messages import HumanMessage

from turngraph.context import count_tokens, encoding, view
from turngraph.context.tokens import IMAGE_TOKENS
from turngraph.state.settings import TurnSettings

CHINESE = "请把这份报告翻译成英文并检查其中的数字是否正确。" * 22
SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{n}",
            "description": "Looks something up and returns what it found.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
        },
    }
    for n in range(30)
]


def test_chinese_is_not_undercounted():
    exact = len(encoding.encoding().encode_ordinary(CHINESE))
    assert exact > 250
    assert exact <= count_tokens([HumanMessage(CHINESE)]) <= exact * 1.1


def test_chinese_is_not_undercounted_without_the_vocabulary(monkeypatch: pytest.MonkeyPatch):
    exact = len(encoding.encoding().encode_ordinary(CHINESE))
    monkeypatch.setattr(encoding, "_encoding", None)
    monkeypatch.setattr(encoding, "_failed", True)
    assert exact <= count_tokens([HumanMessage(CHINESE)]) <= 3 * exact


def test_a_screenshot_is_not_counted_by_its_base64():
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 400_000}
    assert count_tokens([HumanMessage([image])]) < IMAGE_TOKENS + 20


def test_schemas_and_the_system_prompt_are_counted():
    settings = TurnSettings(system_prompt="Follow the rules. " * 200)
    report = view([HumanMessage("hi", id="h")], [], settings, SCHEMAS).report
    assert report["segments"]["tools"] > 1_200
    assert report["segments"]["system"] > 700
    assert report["used"] == sum(report["segments"].values())


def test_chinese_history_is_cut_in_time():
    tape = [HumanMessage(CHINESE, id=f"h{n}") for n in range(12)]
    settings = TurnSettings(context_window=4_000, max_output_tokens=400)
    seen = view(tape, [], settings)
    assert seen.new_anchors
    assert sum(len(encoding.encoding().encode_ordinary(m.text)) for m in seen.messages) < 4_000 - 400
