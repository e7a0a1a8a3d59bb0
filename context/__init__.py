"""What the model is sent: tokens, view, trimming, folding, repair."""

from turngraph.context.tokens import count_tokens
from turngraph.context.view import View, view

__all__ = ["View", "count_tokens", "view"]
