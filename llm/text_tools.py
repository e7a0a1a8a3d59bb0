"""Tool calls as text, in one place: finding them, describing tools for them, and history without native calls."""

from turngraph.llm.text_dialects import RawTextCall
from turngraph.llm.text_parser import Piece, TextCallParser, strip_call_markup
from turngraph.llm.text_prompt import render_for_text, tools_prompt

__all__ = ["Piece", "RawTextCall", "TextCallParser", "render_for_text", "strip_call_markup", "tools_prompt"]
