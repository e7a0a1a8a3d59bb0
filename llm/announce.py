"""Chunks of a chat model on their way out: each told to the callbacks of its run, then given to the caller."""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.outputs import ChatGenerationChunk


async def aannounced(
    chunks: AsyncGenerator[ChatGenerationChunk], run_manager: AsyncCallbackManagerForLLMRun | None
) -> AsyncGenerator[ChatGenerationChunk]:
    """The chunks, each announced before it is given out; they are closed with this."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def announced(
    chunks: Generator[ChatGenerationChunk], run_manager: CallbackManagerForLLMRun | None
) -> Generator[ChatGenerationChunk]:
    """The same for a sync run."""
    with closing(chunks):
        for chunk in chunks:
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
