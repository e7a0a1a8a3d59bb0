"""`ask_user`: the tool that pauses a turn for a person's answers. Its questions, their answers, the text of both."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import Field
from typing_extensions import TypedDict

from turngraph.state.calls import CallProblem
from turngraph.tools import texts
from turngraph.tools.clean import clean, plain_text

ASK_USER = "ask_user"
MAX_QUESTIONS = 4
MAX_OPTIONS = 8


class Option(TypedDict, total=False):
    """One choice: `label` always, `description` where there is one."""

    label: str
    description: str


class Question(TypedDict):
    """One question with every field filled in. Answers are keyed by `id`."""

    id: str
    question: str
    options: list[Option]
    multiple: bool
    free_text: bool


_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_QUESTIONS,
            "description": "The questions, all asked at once.",
            "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "The question, as the user reads it."},
                    "id": {"type": "string", "description": "A short name for the answer, unique among the questions."},
                    "options": {
                        "type": "array",
                        "maxItems": MAX_OPTIONS,
                        "description": "Choices to offer, where there are a few clear ones.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "label": {"type": "string", "description": "The choice in a few words."},
                                "description": {"type": "string", "description": "What choosing it means."},
                            },
                            "required": ["label"],
                        },
                    },
                    "multiple": {"type": "boolean", "description": "Several options may be chosen. Default false."},
                    "free_text": {
                        "type": "boolean",
                        "description": "The user may also answer in their own words. Default true.",
                    },
                },
                "required": ["question"],
            },
        }
    },
    "required": ["questions"],
}


class AskUserTool(BaseTool):
    """The schema of `ask_user`. A turn graph never runs it: the call becomes a pause, the answer its result."""

    name: str = ASK_USER
    description: str = (
        f"Ask the user 1 to {MAX_QUESTIONS} questions and wait for the answers. Use it only for what you cannot find "
        "out yourself and need before you can go on. Ask everything at once."
    )
    args_schema: Any = Field(default_factory=lambda: json.loads(json.dumps(_SCHEMA)))
    handle_tool_error: Any = False

    def _run(self, *_args: Any, **_kwargs: Any) -> str:
        raise NotImplementedError("ask_user is answered by a person: use it in a graph of build_turn_graph.")


ask_user = AskUserTool()


def parse_questions(args: Mapping[str, Any]) -> list[Question] | CallProblem:
    """The questions of a call, defaults and ids filled in, or the problem in the words that the model is told.

    Slips that leave no doubt are taken: one question not in a list, a text for a question or an option, a list
    written as JSON text. Law: ids are unique and every question can be answered.
    """
    raw = args.get("questions", args if "question" in args else None)
    if isinstance(raw, str):
        raw = _decoded(raw)
    if isinstance(raw, Mapping) or (isinstance(raw, str) and raw.strip()):
        raw = [raw]
    if not isinstance(raw, list) or not raw:
        return _problem(f"'questions' must be a list of 1 to {MAX_QUESTIONS} questions, each {{\"question\": text}}")
    if len(raw) > MAX_QUESTIONS:
        return _problem(f"{len(raw)} questions were given; ask at most {MAX_QUESTIONS} at once")
    questions: list[Question] = []
    for number, item in enumerate(raw, 1):
        question = _question({"question": item} if isinstance(item, str) else item, number)
        if isinstance(question, str):
            return _problem(question)
        questions.append(question)
    return _with_ids(questions)


def _question(item: Any, number: int) -> Question | str:
    """One question, or what is wrong with it."""
    if not isinstance(item, Mapping):
        return f"question {number} must be an object with 'question'"
    text = item.get("question")
    if not isinstance(text, str) or not text.strip():
        return f"question {number} has no text in 'question'"
    options = _options(item.get("options"), number)
    if isinstance(options, str):
        return options
    for flag in ("multiple", "free_text"):
        if not isinstance(item.get(flag, False), bool | None):
            return f"question {number}: '{flag}' must be true or false"
    identity = item.get("id")
    if identity is not None and not isinstance(identity, str | int):
        return f"question {number}: 'id' must be a text"
    free_text = item.get("free_text") is not False
    if not options and not free_text:
        return f"question {number} can not be answered: it has no options and 'free_text' is false"
    return {
        "id": clean(str(identity)).strip() if identity is not None else "",
        "question": clean(text).strip(),
        "options": options,
        "multiple": bool(item.get("multiple") or False),
        "free_text": free_text,
    }


def _options(raw: Any, number: int) -> list[Option] | str:
    """The options of one question, or what is wrong with them."""
    raw = _decoded(raw) if isinstance(raw, str) else raw
    if raw is None:
        return []
    if not isinstance(raw, list):
        return f"question {number}: 'options' must be a list"
    if len(raw) > MAX_OPTIONS:
        return f"question {number} has {len(raw)} options; give at most {MAX_OPTIONS}"
    options: list[Option] = []
    for item in raw:
        given = item if isinstance(item, Mapping) else {"label": item}
        label = given.get("label")
        if isinstance(label, bool) or not isinstance(label, str | int | float) or not str(label).strip():
            return f"question {number}: every option needs a text in 'label'"
        option: Option = {"label": clean(str(label)).strip()}
        if isinstance(given.get("description"), str) and given["description"].strip():
            option["description"] = clean(given["description"]).strip()
        options.append(option)
    if len({option["label"] for option in options}) < len(options):
        return f"question {number} has two options with the same label"
    return options


def _with_ids(questions: list[Question]) -> list[Question] | CallProblem:
    """The questions with the missing ids filled in as q1, q2, ..."""
    given = [question["id"] for question in questions if question["id"]]
    if len(set(given)) < len(given):
        return _problem("two questions have the same 'id'")
    taken = set(given)
    for number, question in enumerate(questions, 1):
        if not question["id"]:
            name, extra = f"q{number}", 0
            while name in taken:
                extra += 1
                name = f"q{number}_{extra}"
            question["id"] = name
            taken.add(name)
    return questions


def _problem(what: str) -> CallProblem:
    return {"code": "bad_arguments", "text": f"The user was not asked: {what}. Correct the call and try again."}


def _decoded(text: str) -> Any:
    """The JSON list or object that a text holds, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, list | dict) else text


def check_answers(questions: Sequence[Question], answers: Mapping[str, Any]) -> dict[str, str | list[str]] | str:
    """The answers by question id as texts or lists of texts, or what is wrong with them (and what would be right).

    A question left out, None or blank is a blank answer. An option may be named in another case; what is stored is
    its label. Law: with a result, its keys are exactly the ids of the questions.
    """
    ids = [question["id"] for question in questions]
    unknown = [str(key) for key in answers if key not in ids]
    if unknown:
        return f"there is no question {unknown[0]!r}; the questions are {', '.join(map(repr, ids))}"
    checked: dict[str, str | list[str]] = {}
    for question in questions:
        answer = _answer(question, answers.get(question["id"]))
        if isinstance(answer, _Wrong):
            return f"question {question['id']!r}: {answer}"
        checked[question["id"]] = answer
    return checked


class _Wrong(str):
    """What is wrong with one answer."""


def _answer(question: Question, raw: Any) -> str | list[str] | _Wrong:
    """One answer as text, or list of texts for a multiple choice."""
    several = raw if isinstance(raw, list | tuple) else None
    if several is not None and not question["multiple"]:
        if len(several) > 1:
            return _Wrong("only one answer is possible")
        raw = several[0] if several else ""
    given = list(several) if several is not None and question["multiple"] else [raw]
    if not all(item is None or isinstance(item, str | int | float | bool) for item in given):
        return _Wrong("an answer is a text" + (" or a list of texts" if question["multiple"] else ""))
    labels = {option["label"].casefold(): option["label"] for option in question["options"]}
    said: list[str] = []
    for item in given:
        text = plain_text(item)
        label = labels.get(text.strip().casefold())
        if label is None and text.strip() and not question["free_text"]:
            return _Wrong(f"{text.strip()[:80]!r} is not among the options {', '.join(map(repr, labels.values()))}")
        said.append(label if label is not None else text)
    if question["multiple"]:
        return [text for text in said if text.strip()]
    return said[0]


def is_blank(answer: str | Sequence[str] | None) -> bool:
    """Whether an answer says nothing."""
    return not answer or not "".join(answer).strip()


def answer_text(questions: Sequence[Question], answers: Mapping[str, str | list[str]], message: str = "") -> str:
    """The tool message of an `ask_user` call: the answers, or an explicit statement that there is none.

    `message` is an answer to the questions as a whole.
    """
    said = {key: answer for key, answer in answers.items() if not is_blank(answer)}
    if not said:
        return message if message.strip() else texts.NO_ANSWER
    if len(questions) == 1 and not message.strip():
        return _joined(next(iter(said.values())))
    lines = [
        f"{question['question']}\n{_joined(said[question['id']]) if question['id'] in said else texts.no_answer_to()}"
        for question in questions
    ]
    return "\n\n".join([*lines, *([message] if message.strip() else [])])


def _joined(answer: str | list[str]) -> str:
    return answer if isinstance(answer, str) else ", ".join(answer)
