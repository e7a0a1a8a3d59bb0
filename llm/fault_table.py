"""The table of provider failures: codes and exception classes, and the senses that their wordings share."""

import re

from turngraph.state.words import FaultKind


def _sense(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.DOTALL)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CODES: tuple[tuple[FaultKind, frozenset[str]], ...] = (
    (
        "overflow",
        _words("""context_length_exceeded exceed_context_size_error context_window_exceeded prompt_too_long
            model_context_window_exceeded context_window_exceeded_error context_overflow input_too_long"""),
    ),
    (
        "bad_generation",
        _words("""tool_use_failed json_validate_failed output_parse_failed malformed_function_call failed_generation
            tool_call_validation_failed"""),
    ),
    (
        "auth",
        _words("""invalid_api_key authentication_error authentication_failed permission_error permission_denied
            unauthenticated unauthorized access_denied_exception access_denied unrecognized_client_exception
            expired_token_exception invalid_signature_exception incomplete_signature account_deactivated
            insufficient_quota insufficient_balance billing_hard_limit_reached billing_not_active billing_error
            api_key_invalid arrearage"""),
    ),
    (
        "rate_limit",
        _words("""rate_limit_exceeded rate_limit_error rate_limit rate_limited too_many_requests throttling
            throttling_exception too_many_requests_exception resource_exhausted service_quota_exceeded_exception
            quota_exceeded slow_down model_not_ready_exception"""),
    ),
    (
        "invalid_request",
        _words("""content_filter content_policy_violation invalid_prompt data_inspection_failed moderation_blocked
            model_not_found responsible_ai_policy_violation"""),
    ),
)
"""In order of weight. Codes that say no more than a status (`invalid_request_error`, `api_error`) are left out."""

SIZE_CODES = _words("request_too_large payload_too_large request_entity_too_large")
"""Overflow, unless the words say that a rate was meant."""

TRANSPORT_CODES = _words(
    """server_error internal_server_error overloaded_error overloaded unavailable deadline_exceeded api_error timeout
    service_unavailable service_unavailable_exception internal_server_exception model_timeout_exception
    model_stream_error_exception model_error_exception engine_overloaded engine_overloaded_error aborted"""
)

PARAMETER_CODES = _words(
    """unsupported_parameter unsupported_value unknown_parameter extra_forbidden unrecognized_parameter
    invalid_parameter_combination"""
)

CLASSES: tuple[tuple[FaultKind, frozenset[str]], ...] = (
    ("overflow", _words("ContextOverflowError ContextWindowExceededError")),
    ("invalid_request", _words("UnsupportedProtocol InvalidURL InvalidSchema MissingSchema ModelRefusalError")),
    (
        "auth",
        _words("""AuthenticationError PermissionDeniedError ModelAuthenticationError ModelPermissionDeniedError
            Unauthenticated Unauthorized PermissionDenied Forbidden NoCredentialsError PartialCredentialsError
            CredentialRetrievalError DefaultCredentialsError RefreshError"""),
    ),
    ("rate_limit", _words("RateLimitError ModelRateLimitError TooManyRequests ResourceExhausted ThrottlingException")),
    (
        "transport",
        _words("""TransportError StreamError APIConnectionError APITimeoutError ModelConnectionError ModelTimeoutError
            ConnectionError TimeoutError Timeout HTTPClientError ClientConnectionError ClientPayloadError
            ServerDisconnectedError ChunkedEncodingError ContentDecodingError ProtocolError MaxRetryError
            IncompleteRead HTTPException SSLError gaierror ServiceUnavailable DeadlineExceeded InternalServerError
            BadGateway GatewayTimeout JSONDecodeError APIResponseValidationError ConnectionClosed"""),
    ),
    ("bad_generation", _words("OutputParserException ValidationError")),
)
"""By name, of the class or of any it derives from, so that no SDK is imported."""


# Wordings. All of them are matched against lower-case text with straight quotes, no addresses and no quoted
# identifiers (a tool, a file or a model may be called anything).

BILLING = _sense(
    r"insufficient (?:account )?(?:balance|credits?|funds|quota)",
    r"credit balance is too low",
    r"payment required",
    r"out of credits?",
    r"requires more credits",
    r"account (?:is |has been )?(?:suspended|deactivated|overdue|in arrears)",
)

RATE = _sense(
    r"rate[\s_-]?limit",
    r"too many (?:concurrent |simultaneous )?requests",
    r"\b[tr]p[mdhs]\b",
    r"\b(?:tokens?|requests?) ?(?:/|per|a|each) ?(?:min|minute|day|hour|second|month)\b",
    r"\bper[- ](?:min|minute|day|hour|month)\b",
    r"\bquotas?\b",
    r"throttl",
    r"too many tokens, please wait",
    r"\b(?:daily|hourly|weekly|monthly)\b.{0,30}\b(?:limit|tokens?|cap|allowance)",
    r"concurren\w*.{0,40}(?:limit|exceed)|(?:limit|exceed\w*|maximum).{0,40}concurren",
    r"capacity exceeded|exceed\w* .{0,20}capacity",
    r"usage limit",
    r"slow down",
)

BAD_GENERATION = _sense(
    r"failed to call a function",
    r"failed_generation",
    r"tool call validation failed",
    r"(?:error|failed|failure|unable|could not|cannot)(?: to| while| when)? pars(?:e|ing)(?: the| a)? ?"
    r"(?:tool|function|model|assistant|generated|response|output|input at pos)",
    r"malformed[ _]function[ _]call",
    r"(?:failed|unable) to generate (?:valid )?json",
    r"(?:model|assistant) (?:produced|generated|returned|emitted) (?:an? |some )?"
    r"(?:invalid|malformed|empty|unparsable)",
)

AUTH = _sense(
    r"(?:invalid|incorrect|missing|expired|wrong|malformed|no|bad|unknown)(?: or \w+)?(?: \w+){0,2}"
    r" (?:api[ _-]?key|credentials?|access key|(?:access|auth\w*|bearer|api|refresh|security|id) token|authorization)",
    r"api[ _-]?key\b.{0,40}"
    r"(?:not valid|invalid|expired|required|missing|not found|incorrect|must be set|not set|revoked)",
    r"(?:access|auth\w*|bearer|api|refresh|security|session) token\b.{0,30}"
    r"(?:invalid|expired|too l|missing|not valid|exceed|revoked)",
    r"unauthori[sz]ed|not authori[sz]ed",
    r"authentication (?:failed|error|required)|authenticate",
    r"(?:permission|access)(?: was| is| has been)? denied",
    r"illegal header value",
)

POLICY = _sense(
    r"content[ _](?:management )?polic",
    r"content[ _]filter",
    r"(?:usage|safety|acceptable use) polic",
    r"safety (?:system|filter|setting|check)",
    r"moderation",
    r"inappropriate (?:content|input)",
    r"\bflagged\b",
)

MISSING_TOOL = _sense(
    r"\b(?:tool|function)\b(?: \w+){0,3} (?:was |is |does )?not (?:found|exist|registered|defined|known)",
    r"\b(?:unknown|no such|undefined|unregistered) (?:tool|function)\b(?! ?(?:calling|calls?|use|choice))",
)

TRANSPORT = _sense(
    r"timed?[ -]?out|deadline exceeded|context cancell?ed",
    r"connection (?:was |is |has been )?(?:reset|refused|error|closed|aborted|lost|broken|dropped|terminated|failed)",
    r"(?:closed|dropped|lost|reset|refused) (?:the |its )?connection",
    r"temporar(?:y|ily)|service unavailable|unavailable\b|bad gateway|gateway time|internal server error|server error",
    r"overloaded|try again later|upstream|network (?:error|is unreachable)|econn\w+|server disconnected|peer closed",
    r"(?:cannot|can't|could not|failed to|unable to) connect|max retries exceeded",
    r"incomplete (?:chunked )?read|broken pipe|unexpected (?:eof|end of (?:stream|file))",
    r"stream (?:was )?(?:reset|closed|ended)",
    r"name resolution|name or service not known|getaddrinfo|ssl\b.{0,30}(?:error|fail)|no route to host",
)
