"""classify_provider_error: wordings seen in the wild, wordings of the same sense, and what only looks like them."""

import asyncio
import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import httpx
import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError, OutputParserException

from turngraph.llm.faults import classify_provider_error, silent_overflow
from turngraph.state.errors import ProviderError, ProviderFault

CLIENT = openai.OpenAI(api_key="none", base_url="http://127.0.0.1:1/v1")


def api_error(
    status: int, message: str = "", *, body: Any = None, headers: dict[str, str] | None = None, **error: Any
) -> openai.APIStatusError:
    """The exception that the OpenAI SDK itself makes of such a response."""
    request = httpx2.Request("POST", "http://127.0.0.1:1/v1/chat/completions")
    content = body if body is not None else {"error": {"message": message, **error}} if message or error else ""
    text = content if isinstance(content, str) else json.dumps(content)
    response = httpx2.Response(status, request=request, text=text, headers=headers)
    return CLIENT._make_status_error_from_response(response)


OVERFLOW = [
    (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. "
          "Please reduce the length of the messages."),
    (400, "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10346 in your "
          "prompt; 5 for the completion). Please reduce your prompt; or completion length."),
    (400, "Your input exceeds the context window of this model"),
    (400, "Input tokens exceed the configured limit of 922000 tokens. Your messages resulted in 1751400 tokens. "
          "Please reduce the length of the messages."),
    (400, "Requested token count exceeds the model's maximum context length of 131072 tokens"),
    (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    (400, "input length and max_tokens exceed context limit: 170636 + 34048 > 200000, decrease input length or "
          "max_tokens and try again"),
    (413, "Request exceeds the maximum size"),
    (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)"),
    (400, "Please reduce the length of the messages or completion"),
    (400, "This endpoint's maximum context length is 8192 tokens. However, you requested about 9999 tokens"),
    (422, "The input (8300 tokens) is longer than the model's context length (8192 tokens)."),
    (400, "the request exceeds the available context size, try increasing it"),
    (400, "tokens to keep from the initial prompt is greater than the context length"),
    (400, "invalid params, context window exceeds limit"),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "prompt too long; exceeded max context length by 1234 tokens"),
    (500, "ollama: context length exceeded for llama3"),
    (400, "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your "
          "prompt contains at least 262145 input tokens, for a total of at least 262145 tokens. Please reduce the "
          "length of the input prompt or the number of requested output tokens. "
          "(parameter=input_tokens, value=262145)"),
    (400, "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
          "messages, 10000 in the completion). Please reduce the length of the messages or completion."),
    (400, "InternalError.Algo.InvalidParameter: Range of input length should be [1, 202745]"),
    (400, "ValidationException: Input exceeds the max input token limit"),
    (424, "ModelStreamErrorException: Input is too long"),
    (400, "total tokens exceeds the model's max of 4096"),
]  # fmt: skip

TOOLS = [
    (400, "registry.ollama.ai/library/deepseek-r1:14b does not support tools"),
    (404, "No endpoints found that support tool use. To learn more about provider routing, visit: "
          "https://openrouter.ai/docs/provider-routing"),
    (404, 'No endpoints found that support tool use. Try disabling "question". To learn more about provider routing, '
          "visit: https://openrouter.ai/docs/guides/routing/provider-selection"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (500, "Unsupported param: tools"),
    (400, "ValidationException: This model doesn't support tool use in streaming mode."),
    (400, "Function calling is not enabled for models/gemma-3-27b-it"),
    (400, "`tool calling` is not supported with this model"),
    (400, "Tool calling is not supported for this model"),
    (404, "tools is not supported in this model. For a list of supported models, refer to "
          "https://platform.openai.com/docs/guides/function-calling#models-supporting-function-calling."),
]  # fmt: skip

TOOL_CHOICE = [
    (400, "Thinking mode does not support this tool_choice"),
    (400, "deepseek-reasoner does not support this tool_choice"),
    (404, "No endpoints found that support the provided 'tool_choice' value."),
]

OVERFLOW_PARAPHRASES = [
    "The conversation is too long for this model.",
    "Your prompt has 140213 tokens, but the context window is only 131072 tokens.",
    "Context size has been exceeded.",
    "Too many input tokens: 40123 (limit 32768)",
    "The total number of tokens in your request goes beyond the model's context limit.",
    "Sequence length 9001 is larger than max_model_len 8192.",
    "n_ctx exceeded: prompt needs 5120 tokens, 4096 available",
    "Your request does not fit into the context window.",
    "Please shorten your prompt and try again.",
    "You sent 9000 tokens while this model accepts at most 8192 tokens.",
    "This model supports at most 32768 tokens, but your messages contain 41000 tokens.",
    "Input length 70000 must be less than or equal to 65536",
    "the prompt overflows the available context",
    "Chat history is too large for the model; trim the conversation.",
    "Token limit exceeded: the prompt and history together use 17000 tokens",
    "We ran out of context space while processing the messages.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9000 `inputs` tokens",
    "Maximum input length of 16384 tokens exceeded",
    "The combined tokens of messages and tools surpass the context window",
    "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string "
    "with length 1200000 instead.",
    "The context window of this model is full",
    "Messages and functions exceed the model's context window",
    "requested tokens (5033) exceed context window of 4096",
    "输入内容超过模型的最大长度限制",
    "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
    "prompt token count of 140000 exceeds the limit of 128000",
    "Invalid request: Your request exceeded model token limit: 262144 (requested: 269000)",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 6000.",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 2048",
    "Unable to submit request because the input token count is 33000 but model only supports up to 32768.",
    "The prompt is too long: 40000, model maximum context length: 32767",
    "Prompt exceeds max length",
    "'max_tokens' or 'max_completion_tokens' is too large: 30000. This model's maximum context length is 32768 tokens "
    "and your request has 5000 input tokens (30000 > 32768 - 5000).",
    "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context "
    "length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide "
    "a shorter input.",
    "Number of tokens (757) exceeded maximum context length (512).",
]

TOOLS_PARAPHRASES = [
    "Model 'phi-2' cannot use tools",
    "This deployment has function calling disabled: function calling is disabled",
    "tool use is not available on this endpoint",
    "The `tools` parameter is not supported by this backend",
    "Unrecognized request argument supplied: tools",
    "functions are not supported for this model",
    "this model lacks support for tool calling",
    "Unknown field: tools",
    "tools: Extra inputs are not permitted",
    "The model is not capable of function calling",
    "This checkpoint does not currently support tool calls",
    "Function call is not supported for this model. (request id: 20250307032150751801)",
    "llama-3 doesn't have tool calling support",
]

PARAMETERS = [
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
     "max_tokens"),
    ("Unknown parameter: 'max_completion_tokens'. Use 'max_tokens' instead.", "max_completion_tokens"),
    ("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
     "temperature"),
    ("`temperature` is deprecated for this model.", "temperature"),
    ("stream_options: Extra inputs are not permitted", "stream_options"),
    ('Invalid JSON payload received. Unknown name "stream_options": Cannot find field.', "stream_options"),
    ("Unrecognized request argument supplied: stream_options", "stream_options"),
    ("'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property "
     "'reasoning_content' is unsupported)]", "reasoning_content"),
    ("reasoning_content is not allowed in the input messages", "reasoning_content"),
    ("Invalid content type. image_url is only supported by certain models.", "images"),
    ("No endpoints found that support image input", "images"),
    ("Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected "
     "`text` at line 1 column 512", "images"),
    ("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "images"),
    ("This model only supports text input", "images"),
    ("/models/qwen is not a multimodal model", "images"),
    ("This model does not support response_format", "response_format"),
    ("'response_format' of type 'json_schema' is not supported with this model", "response_format"),
    ("json mode cannot be combined with tool/function calling", "response_format"),
    ("Function calling with a response mime type: 'application/json' is unsupported", "response_format"),
    ("This model does not support parallel tool calls", "parallel_tool_calls"),
    ("Unknown parameter: 'parallel_tool_calls'.", "parallel_tool_calls"),
    ("'parallel_tool_calls' is only allowed when 'tools' are specified.", "parallel_tool_calls"),
    ("System role not supported", "system_messages"),
    ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "system_messages"),
    ("Developer instruction is not enabled for models/gemma-3-27b-it", "system_messages"),
    ("Conversation roles must alternate user/assistant/user/assistant/...", "alternate_roles"),
    ("Failed to deserialize the JSON body into the target type: messages[2].content: invalid type: sequence, expected "
     "a string at line 1 column 900", "string_tool_content"),
    ("messages.3.content: content must be a string", "string_tool_content"),
    ("Missing `reasoning_content` field in the assistant message at message index 2.", "reasoning_content_required"),
    ("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
     "reasoning_content_required"),
    ("tool_choice must be 'auto' for this model", "tool_choice"),
    ("'tool_choice': 'required' is not supported.", "tool_choice"),
    ("Completions.create() got an unexpected keyword argument 'min_p'", "min_p"),
    ("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"),
    ("Extra parameters ['stream_options'] are not allowed when extra-parameters is not set or set to be 'error'.",
     "stream_options"),
    ("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"),
    ('"MFDoom/deepseek-r1-tool-calling:70b" does not support thinking', "thinking"),
    ("Multimodal data provided, but model does not support multimodal requests.", "images"),
    ("Input tag 'image' found using 'type' does not match any of the expected tags: 'text'", "images"),
    ("temperature and top_p cannot both be specified for this model. Please use only one.", "temperature"),
    ("invalid temperature: only 1 is allowed for this model", "temperature"),
    ("tool_choice 'specified' is incompatible with thinking enabled", "tool_choice"),
    ("tool_choice forces tool use is not compatible with this model", "tool_choice"),
    ("The tool_choice parameter does not support being set to required or object in thinking mode", "tool_choice"),
    ("Failed to deserialize the JSON body into the target type: tool_choice: expected one of `none`, `auto`",
     "tool_choice"),
]  # fmt: skip

LOOK_ALIKES: list[tuple[int | None, str, str]] = [
    (413, "Request too large for model `llama-3.1-8b-instant` in organization `org_1` service tier `on_demand` "
          "on tokens per minute (TPM): Limit 6000, Requested 7200, please reduce your message size and try again.",
     "rate_limit"),
    (429, "Rate limit reached for gpt-4o on input tokens per min: Limit 30000, Used 29000, Requested 5000.",
     "rate_limit"),
    (400, "Too many tokens, please wait before trying again.", "rate_limit"),
    (None, "You exceeded your current quota: prompt tokens exceed the daily token limit", "rate_limit"),
    (None, "Maximum number of concurrent requests exceeded for the context", "rate_limit"),
    (429, "Service tier capacity exceeded for this model.", "rate_limit"),
    (400, "max_tokens must be less than or equal to 8192", "invalid_request"),
    (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
          "provided 100000.", "invalid_request"),
    (400, "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-x",
     "invalid_request"),
    (400, "max_tokens must be less than the model's context length of 8192", "invalid_request"),
    (400, "max_tokens (9000) exceeds the model's context window of 8192", "invalid_request"),
    (400, "Tool description exceeds the maximum input length of 1024 for the model", "invalid_request"),
    (400, "`max_tokens` must be greater than `thinking.budget_tokens`", "invalid_request"),
    (400, "Tool 'prompt_is_too_long' not found", "invalid_request"),
    (400, "Unknown tool: context_length_exceeded", "invalid_request"),
    (400, "No function named `exceed_context_window` was found in the input", "invalid_request"),
    (400, "tool not found", "invalid_request"),
    (413, "The uploaded file is too large", "invalid_request"),
    (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
     "invalid_request"),
    (400, "The audio input is too long", "invalid_request"),
    (400, "The prompt was rejected by our content policy; the input is too large a risk", "invalid_request"),
    (400, "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
     "invalid_request"),
    (401, "Incorrect API key provided: the context window exceeds limit", "auth"),
    (None, "Invalid API key in this context: token limit exceeded for the key", "auth"),
    (None, "Access token is too long for the context", "auth"),
    (400, "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
     "bad_generation"),
    (500, "error parsing tool call: raw='{\"q\": ' err=unexpected end of JSON input", "bad_generation"),
    (400, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got 140 instead.",
     "invalid_request"),
    (400, "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but "
          "got a string with length 2000 instead.", "invalid_request"),
    (400, "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got "
          "a string with length 77 instead.", "invalid_request"),
    (404, "The model `long-context-exceeded-7b` does not exist", "invalid_request"),
    (None, "Post http://127.0.0.1:11434/api/chat: context deadline exceeded", "transport"),
    (None, "context canceled", "transport"),
    (400, "metadata value exceeds the maximum length of 512 characters for the model", "invalid_request"),
    (400, "The following tools cannot be used with reasoning.effort 'minimal': web_search", "invalid_request"),
    (402, "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only "
          "afford 5000.", "auth"),
    (400, "Invalid schema for function 'search': 'type' is not supported", "invalid_request"),
    (400, "Hosted tool 'web_search_preview' is not supported with gpt-4.1-nano.", "invalid_request"),
    (500, "The server had an error while processing your request. Sorry about that!", "transport"),
    (503, "The engine is currently overloaded, please try again later", "transport"),
]  # fmt: skip


NEITHER = [
    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "tool_use ids were found without tool_result blocks immediately after: toolu_1.",
    "Invalid schema for function 'search': schema must be a JSON Schema of 'type: \"object\"'.",
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    "Invalid type for 'messages[0].content': expected one of a string or array of objects, but got null instead.",
    "Tool names must be unique.",
    "Model output limit exceeded",
    "maximum recursion depth exceeded",
    "Failed to load model: insufficient memory for context size",
    "File exceeds the maximum size",
    "JSON schema too large for the tool",
    "The maximum number of tools is 128; your request has too many tools",
    "The number of tool calls exceeds the limit",
    "The tool search_functions is not supported in this region",
    "User location is not supported for the API use.",
    "Prompt caching is not supported",
    "The requested model 'x' is not supported.",
    "temperature: must be between 0 and 1",
    "thinking.budget_tokens: Input should be greater than or equal to 1024",
]


def both(status: int | None, message: str) -> Iterator[BaseException]:
    """The wording as the SDK raises it, and as text only."""
    if status is not None:
        yield api_error(status, message)
    yield Exception(message)


@pytest.mark.parametrize(("status", "message"), OVERFLOW)
def test_each_overflow_wording_is_overflow(status: int, message: str) -> None:
    for exc in both(status, message):
        assert classify_provider_error(exc).kind == "overflow"


@pytest.mark.parametrize("message", OVERFLOW_PARAPHRASES)
def test_overflow_is_known_by_its_sense(message: str) -> None:
    for exc in both(400, message):
        assert classify_provider_error(exc).kind == "overflow"


@pytest.mark.parametrize(
    "exc",
    [
        api_error(400, "Bad.", code="context_length_exceeded", type="invalid_request_error"),
        api_error(400, "Bad.", type="exceed_context_size_error", n_prompt_tokens=5000, n_ctx=4096),
        api_error(413, body={"type": "error", "error": {"type": "request_too_large", "message": "Too big."}}),
        openai.APIError("e", httpx2.Request("POST", "http://x"), body={"type": "request_too_large", "message": "Big."}),
        api_error(400),
        api_error(413),
        Exception("413 status code (no body)"),
        Exception("400 status code (no body)"),
        api_error(413, body="<html><h1>413 Request Entity Too Large</h1></html>"),
        ContextOverflowError("no words"),
        Exception("Error code: 400 - {'error': {'message': 'Bad.', 'code': 'context_length_exceeded'}}"),
        api_error(
            400,
            "Provider returned error",
            metadata={"raw": json.dumps({"error": {"message": "prompt is too long: 213462 tokens > 200000 maximum"}})},
        ),
    ],
    ids=range(12),
)
def test_overflow_is_known_by_its_structure(exc: BaseException) -> None:
    assert classify_provider_error(exc).kind == "overflow"


@pytest.mark.parametrize(("status", "message"), TOOLS)
def test_each_tools_wording_is_tools_unsupported(status: int, message: str) -> None:
    for exc in both(status, message):
        fault = classify_provider_error(exc)
        assert fault.kind == "tools_unsupported"
        assert fault.detail == ("stream" if "streaming" in message else "")


@pytest.mark.parametrize("message", TOOLS_PARAPHRASES)
def test_tools_unsupported_is_known_by_its_sense(message: str) -> None:
    for exc in both(400, message):
        assert classify_provider_error(exc).kind == "tools_unsupported"


@pytest.mark.parametrize(("status", "message"), TOOL_CHOICE)
def test_a_refused_tool_choice_never_drops_the_tools(status: int, message: str) -> None:
    for exc in both(status, message):
        assert classify_provider_error(exc) == ProviderFault("parameter_unsupported", detail="tool_choice")


@pytest.mark.parametrize(("message", "refused"), PARAMETERS)
def test_a_refused_parameter_is_named(message: str, refused: str) -> None:
    for exc in both(400, message):
        assert classify_provider_error(exc) == ProviderFault("parameter_unsupported", detail=refused)


@pytest.mark.parametrize(
    ("exc", "kind", "refused"),
    [
        (
            api_error(400, "No.", code="unsupported_parameter", param="max_tokens"),
            "parameter_unsupported",
            "max_tokens",
        ),
        (api_error(400, "No.", code="unsupported_value", param="temperature"), "parameter_unsupported", "temperature"),
        (api_error(400, "No.", code="unknown_parameter", param="tools[0].strict"), "parameter_unsupported", "strict"),
        (
            api_error(400, "No.", code="unknown_parameter", param="messages[2].reasoning_content"),
            "parameter_unsupported",
            "reasoning_content",
        ),
        (
            api_error(
                422,
                body={
                    "detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}]
                },
            ),
            "parameter_unsupported",
            "stream_options",
        ),
        (
            api_error(
                400,
                "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
                code="unsupported_value",
                param="messages[0].role",
            ),
            "parameter_unsupported",
            "system_messages",
        ),
        (
            api_error(400, "Unsupported parameter: 'tools'.", code="unsupported_parameter", param="tools"),
            "tools_unsupported",
            "",
        ),
    ],
)
def test_a_parameter_is_named_by_the_structure(exc: BaseException, kind: str, refused: str) -> None:
    fault = classify_provider_error(exc)
    assert (fault.kind, fault.detail) == (kind, refused)


@pytest.mark.parametrize(("status", "message", "kind"), LOOK_ALIKES)
def test_what_only_looks_like_it_is_told_apart(status: int | None, message: str, kind: str) -> None:
    exc = Exception(message) if status is None else api_error(status, message)
    assert classify_provider_error(exc).kind == kind
    if status is not None:
        assert classify_provider_error(Exception(message)).kind not in ("overflow", "tools_unsupported")


@pytest.mark.parametrize("message", NEITHER)
def test_other_refusals_mean_neither_overflow_nor_a_parameter(message: str) -> None:
    assert classify_provider_error(api_error(400, message)) == ProviderFault("invalid_request")
    assert classify_provider_error(Exception(message)) == ProviderFault("other")


def test_a_request_that_the_error_echoes_is_not_read() -> None:
    echoed = {"type": "missing", "loc": ["body", "model"], "msg": "Field required", "input": {"messages": [
        {"role": "user", "content": "the prompt is too long, rate limit, tools are not supported"}]}}  # fmt: skip
    assert classify_provider_error(api_error(422, body={"detail": [echoed]})).kind == "invalid_request"
    failed = api_error(400, "Failed.", code="tool_use_failed", failed_generation="prompt is too long")
    assert classify_provider_error(failed).kind == "bad_generation"
    bare = api_error(400, "Failed.", failed_generation="rate limit")
    assert classify_provider_error(bare).kind == "bad_generation"


def test_a_size_code_with_words_of_a_rate_is_a_rate() -> None:
    exc = api_error(413, "Request too large on tokens per minute (TPM): Limit 6000", code="request_too_large")
    assert classify_provider_error(exc).kind == "rate_limit"


class BotoError(Exception):
    def __init__(self, code: str, message: str, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"An error occurred ({code}) when calling the Converse operation: {message}")
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers or {}},
        }


class GoogleError(Exception):
    def __init__(self, code: int, status: str, message: str, details: Any = None) -> None:
        super().__init__(f"{code} {status}. {message}")
        self.code, self.status, self.message = code, status, message
        self.details = {"error": {"code": code, "status": status, "message": message, "details": details or []}}


class OllamaError(Exception):
    def __init__(self, error: str, status_code: int) -> None:
        super().__init__(f"{error} (status code: {status_code})")
        self.error, self.status_code = error, status_code


class GrpcError(Exception):
    class _Code:
        name = "UNAUTHENTICATED"

    def code(self) -> "GrpcError._Code":
        return self._Code()

    def details(self) -> str:
        return "no"


def httpx_error(status: int, text: str) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", "http://127.0.0.1:1/v1/messages")
    return httpx.HTTPStatusError("Client error", request=request, response=httpx.Response(status, text=text))


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (BotoError("ThrottlingException", "Too many tokens, please wait", 429), "rate_limit"),
        (BotoError("AccessDeniedException", "You do not have access to the model", 403), "auth"),
        (BotoError("ValidationException", "Input is too long for requested model.", 400), "overflow"),
        (BotoError("ServiceUnavailableException", "Bedrock is unable to process", 503), "transport"),
        (BotoError("ValidationException", "This model doesn't support tool use.", 400), "tools_unsupported"),
        (GoogleError(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota"), "rate_limit"),
        (GoogleError(503, "UNAVAILABLE", "The model is overloaded"), "transport"),
        (GoogleError(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "auth"),
        (GoogleError(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens (8)"),
         "overflow"),
        (OllamaError("llama2 does not support tools", 400), "tools_unsupported"),
        (OllamaError("model 'x' not found, try pulling it first", 404), "invalid_request"),
        (GrpcError(), "auth"),
        (httpx_error(400, '{"error": {"message": "prompt is too long: 3 tokens > 2 maximum"}}'), "overflow"),
        (httpx_error(400, ""), "overflow"),
        (httpx_error(500, ""), "transport"),
        (api_error(401, "No."), "auth"),
        (api_error(403, "No."), "auth"),
        (api_error(404, "The model `x` does not exist", code="model_not_found"), "invalid_request"),
        (api_error(408, "Slow."), "transport"),
        (api_error(422, "Bad."), "invalid_request"),
        (api_error(429, "No."), "rate_limit"),
        (api_error(429, "You exceeded your current quota", code="insufficient_quota"), "auth"),
        (api_error(529, "Overloaded", type="overloaded_error"), "transport"),
        (openai.APIConnectionError(request=httpx2.Request("POST", "http://x")), "transport"),
        (openai.APITimeoutError(httpx2.Request("POST", "http://x")), "transport"),
        (openai.APIError("stream", httpx2.Request("POST", "http://x"), body={"code": 502, "message": "upstream died"}),
         "transport"),
        (openai.APIError("stream", httpx2.Request("POST", "http://x"),
                         body={"code": "context_length_exceeded", "message": "no"}), "overflow"),
        (httpx.ReadTimeout(""), "transport"),
        (httpx.RemoteProtocolError("peer closed connection without sending complete message body"), "transport"),
        (httpx.UnsupportedProtocol("Request URL is missing an 'http://' or 'https://' protocol."), "invalid_request"),
        (httpx.LocalProtocolError("Illegal header value b'Bearer '"), "auth"),
        (ConnectionResetError(104, "Connection reset by peer"), "transport"),
        (TimeoutError(), "transport"),
        (json.JSONDecodeError("Expecting value", "<html>", 0), "transport"),
        (OutputParserException("could not be read"), "bad_generation"),
        (FileNotFoundError("no"), "other"),
        (ValueError("a bug"), "other"),
        (KeyError("x"), "other"),
        (asyncio.CancelledError(), "other"),
        (KeyboardInterrupt(), "other"),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, BaseException) else None,
)  # fmt: skip
def test_every_sdk_shape_is_read(exc: BaseException, kind: str) -> None:
    assert classify_provider_error(exc).kind == kind


def test_causes_and_contexts_are_read() -> None:
    def wrapped(inner: BaseException, *, named: bool) -> BaseException:
        try:
            try:
                raise inner
            except BaseException as exc:
                if named:
                    raise RuntimeError("model call failed") from exc
                raise RuntimeError("model call failed")  # noqa: B904
        except RuntimeError as outer:
            return outer

    for named in (True, False):
        assert classify_provider_error(wrapped(httpx.ReadTimeout("slow"), named=named)).kind == "transport"
        overflow = wrapped(api_error(400, "Your input exceeds the context window"), named=named)
        assert classify_provider_error(overflow).kind == "overflow"
    group = ExceptionGroup("tasks", [api_error(429, "slow down", headers={"retry-after": "3"})])
    assert classify_provider_error(group) == ProviderFault("rate_limit", 3.0)
    fault = ProviderFault("overflow", None, "x")
    assert classify_provider_error(ProviderError("again", fault)) is fault


def test_a_cause_that_is_its_own_cause_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify_provider_error(first).kind == "other"


def test_hostile_exceptions_do_not_break_it() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @property
        def response(self) -> Any:
            raise RuntimeError("no response")

        body = {"error": {"error": {"message": 7, "code": [1], "loc": {}}}}  # noqa: RUF012
        code = staticmethod(lambda: 1 / 0)

    assert classify_provider_error(Hostile()).kind == "other"
    unread = httpx.HTTPStatusError(
        "Server error",
        request=httpx.Request("POST", "http://x"),
        response=httpx.Response(500, stream=httpx.ByteStream(b"")),
    )
    assert classify_provider_error(unread).kind == "transport"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after": "3600"}, 60.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "20", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": formatdate(1_800_000_010, usegmt=True), "date": formatdate(1_800_000_000, usegmt=True)}, 10.0),
        ({"retry-after": formatdate(1_000_000_000, usegmt=True)}, 0.0),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 60.0),
        ({"x-ratelimit-reset-requests": "120ms"}, 0.12),
        (
            {"x-ratelimit-reset-requests": "2s", "x-ratelimit-remaining-requests": "0",
             "x-ratelimit-reset-tokens": "50s", "x-ratelimit-remaining-tokens": "900"},
            2.0,
        ),
        ({"anthropic-ratelimit-tokens-reset": "2027-01-15T08:00:09Z", "date": "Fri, 15 Jan 2027 08:00:00 GMT"}, 9.0),
        ({}, None),
    ],
)  # fmt: skip
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert classify_provider_error(api_error(429, "no", headers=headers)).retry_after == pytest.approx(seconds)


def test_an_epoch_reset_in_milliseconds_is_read() -> None:
    headers = {"x-ratelimit-reset": str(int((time.time() + 20) * 1000))}
    assert classify_provider_error(api_error(429, "no", headers=headers)).retry_after == pytest.approx(20, abs=2)


def test_waits_in_body_and_words_are_read() -> None:
    google = GoogleError(429, "RESOURCE_EXHAUSTED", "Quota.", [{"@type": "RetryInfo", "retryDelay": "34s"}])
    assert classify_provider_error(google).retry_after == 34.0
    words = api_error(429, "Rate limit reached. Please try again in 1m7.66s. Visit the console.")
    assert classify_provider_error(words).retry_after == 60.0
    words = api_error(429, "Rate limit reached. Please try again in 7.66s.")
    assert classify_provider_error(words).retry_after == pytest.approx(7.66)
    assert classify_provider_error(Exception("Too many requests, retry after 20 seconds")).retry_after == 20.0
    boto = BotoError("ThrottlingException", "no", 429, {"retry-after": "4"})
    assert classify_provider_error(boto).retry_after == 4.0


def test_reset_headers_of_other_failures_are_no_wait() -> None:
    headers = {"x-ratelimit-reset-tokens": "50s"}
    assert classify_provider_error(api_error(503, "no", headers=headers)).retry_after is None
    assert classify_provider_error(api_error(503, "no", headers={"retry-after": "2"})).retry_after == 2.0


def test_nothing_of_the_text_is_in_the_fault() -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    for message in (
        f"Incorrect API key provided: {secret}",
        f"Unknown parameter: '{secret}'",
        f"{secret} not supported",
    ):
        for exc in both(400, message):
            assert secret not in repr(classify_provider_error(exc))
    assert secret not in repr(classify_provider_error(api_error(400, "No", code="unknown_parameter", param=secret)))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400), st.sampled_from([None, 200, 400, 404, 413, 429, 500, 503]))
def test_any_text_has_a_fault(text: str, status: int | None) -> None:
    exc = Exception(text) if status in (None, 200) else api_error(status, text)
    fault = classify_provider_error(exc)
    assert fault.retry_after is None or 0 <= fault.retry_after <= 60


def test_long_texts_are_read_in_time() -> None:
    pieces = (
        "context length ",
        "too long prompt ",
        "tools are not ",
        "please reduce the the ",
        "max_tokens 'a' ",
        "9999 ",
    )
    start = time.perf_counter()
    for piece in pieces:
        classify_provider_error(Exception(piece * 10_000))
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("reason", "usage", "window", "silent"),
    [
        ("model_context_window_exceeded", None, 8192, True),
        ("length", {"prompt_tokens": 8190, "completion_tokens": 0, "total_tokens": 8190}, 8192, True),
        ("length", {"input_tokens": 8000, "output_tokens": 0, "total_tokens": 8000}, 8192, True),
        ("length", {"prompt_tokens": 8190, "completion_tokens": 2}, 8192, False),
        ("length", {"prompt_tokens": 100, "completion_tokens": 0}, 8192, False),
        ("length", None, 8192, False),
        ("stop", {"prompt_tokens": 8190, "completion_tokens": 0}, 8192, False),
        ("stop", {"prompt_tokens": 36000, "completion_tokens": 0}, 32768, True),
        (None, {"prompt_tokens": 8190, "completion_tokens": 0}, 8192, False),
        ("length", {"prompt_tokens": None, "completion_tokens": "x"}, 8192, False),
        ("length", {"prompt_tokens": 10, "completion_tokens": 0}, 0, False),
    ],
)
def test_silent_overflow(reason: str | None, usage: dict[str, Any] | None, window: int, silent: bool) -> None:
    assert silent_overflow(reason, usage, window) is silent
