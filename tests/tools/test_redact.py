"""Secrets leave texts, everything else stays."""

import time
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.tools.redact import REDACTED, describe_error, hushed, redact, telling

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PRIVATE = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-test-CANARY",
        "sk-proj-abcDEF123456789",
        "sk-ant-api03-abcdefghijk",
        "sk_live_51H8abcdefgh",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "glpat-abcdefghij1234567890",
        "xoxb-123456789012-abcdefghijkl",
        "AIzaSyD-1234567890abcdefghijklmnopqrstuv",
        "hf_abcdefghijklmnopqrstuv",
        "lsv2_pt_0123456789abcdef0123456789abcdef",
        JWT,
        PRIVATE,
        PRIVATE.split("-----END")[0],
    ],
)
def test_keys_of_known_shapes(secret: str) -> None:
    for text in (f"failed with {secret}", f'{{"key": "{secret}"}}', f"a\n{secret}\nb", f"x={secret};"):
        shown = redact(text)
        assert secret.strip() not in shown
        assert REDACTED in shown
    assert redact(f"before {secret}").startswith("before ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"),
        ("authorization: basic dXNlcjpwYXNzMTIz", "authorization: basic [redacted]"),
        ("Authorization: Token abcdef1234", "Authorization: Token [redacted]"),
        ("postgres://me:hunter22@db/x failed", "postgres://me:[redacted]@db/x failed"),
        ("redis://:hunter22@db", "redis://:[redacted]@db"),
        ("GET https://api.x/v1?api_key=abc12345def&q=cats", "GET https://api.x/v1?api_key=[redacted]&q=cats"),
        ('{"password": "correcthorse9", "user": "ann"}', '{"password": "[redacted]", "user": "ann"}'),
        ("client_secret=a1b2c3d4e5", "client_secret=[redacted]"),
        ("OPENAI_API_KEY='a1b2c3d4e5'", "OPENAI_API_KEY='[redacted]'"),
    ],
)
def test_secrets_by_what_stands_before_them(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8191 tokens: max_tokens=10000000",
        "risk-assessment of sk-learn-pipelines",
        "The bearer authentication scheme is not supported",
        "Use bearer authentication. Basic authentication/authorization is off",
        "Unexpected token identifier12 in line 3",
        "password: must be at least 8 characters",
        "token=invalid",
        "See https://example.com:8080/path@2 and mail ann@example.com",
        "ValueError: invalid literal for int() with base 10: 'abc'",
        "commit 3f2504e04f8911d39a0c0305e82c3301 at 2024-05-01T10:00:00Z",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_what_the_environment_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", "plain0value")
    monkeypatch.setenv("WEATHER_API_KEY_OLD", "plain0value-longer")
    monkeypatch.setenv("DATABASE_URL", "mysql://root:t0psecret@host/db")
    monkeypatch.setenv("SERVICE_TOKEN", "correcthorsebatterystaple")
    assert redact("got plain0value and plain0value-longer") == f"got {REDACTED} and {REDACTED}"
    assert redact("login t0psecret refused") == f"login {REDACTED} refused"
    assert redact("with correcthorsebatterystaple") == f"with {REDACTED}"


def test_words_and_paths_in_the_environment_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_MODE", "production")
    monkeypatch.setenv("AUTH_ENABLED", "1")
    monkeypatch.setenv("PWD", "/home/ann/project1")
    monkeypatch.setenv("KEY_FILE", "/etc/ssl/private1/key.pem")
    monkeypatch.setenv("MONKEY", "Banana123456")
    text = "production 1 in /home/ann/project1 with /etc/ssl/private1/key.pem and Banana123456"
    assert redact(text) == text


@given(
    st.text() | st.lists(st.sampled_from(["sk-A1", "Bearer ", "token=", "x1y2z3a4", "://", ":", "@", " "])).map("".join)
)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "piece",
    ["a-", "a.", "token=", "sk-", "-eyJabcdefgh", "Bearer x", "x://a:b", "-----BEGIN PRIVATE KEY-----", "'x\":", "a"],
)
def test_megabytes_of_any_text_are_searched_in_time(piece: str) -> None:
    started = time.perf_counter()
    redact(piece * (500_000 // len(piece)))
    assert time.perf_counter() - started < 5


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad key sk-test-CANARY"), f"ValueError: bad key {REDACTED}"),
        (KeyError("x"), "KeyError: 'x'"),
        (TimeoutError(), "TimeoutError"),
        (Mute(), "Mute"),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "ExceptionGroup: two: ValueError: a; KeyError: 'b'"),
    ],
)
def test_an_error_in_words(error: BaseException, text: str) -> None:
    assert describe_error(error) == text


def test_the_text_of_an_error_is_bounded() -> None:
    described = describe_error(ValueError("x" * 100_000))
    assert len(described) < 4_100
    assert "more characters" in described


class Stubborn(Exception):
    """An error whose text does not come from its arguments."""

    def __str__(self) -> str:
        return "key sk-test-CANARY4f9a27c1"


def test_what_is_raised_in_hushed_code_tells_no_secret() -> None:
    secret = "sk-test-CANARY4f9a27c1"
    for error in (ValueError(f"key {secret}"), KeyError(secret), OSError(f"no {secret}"), Stubborn()):
        with pytest.raises(Exception) as raised, hushed():  # noqa: PT012
            try:
                raise LookupError(f"caused by {secret}")
            except LookupError as cause:
                raise error from cause
        assert "CANARY" not in "".join(traceback.format_exception(raised.value))
        assert telling(raised.value) is raised.value
        assert "redacted" in str(raised.value)
    plain = ValueError("nothing to hide")
    with pytest.raises(ValueError, match="nothing to hide") as raised, hushed():
        raise plain
    assert raised.value is plain
