"""What the next request of a turn to one model is made under."""

from langchain_core.language_models import BaseChatModel

from turngraph.context.terms import ViewTerms
from turngraph.llm.profile import effective_profile
from turngraph.nodes.belt import Belt
from turngraph.nodes.parts import Visit


def terms_of(visit: Visit, model: BaseChatModel, belt: Belt) -> ViewTerms:
    """The turn's settings and tools, the model's window and profile, and what its counts have shown so far."""
    settings = visit.windowed(model)
    profile = effective_profile(model, settings.model_profile)
    return ViewTerms(settings, belt.offered, belt.blocks, profile, visit.progress.get("calibration", 1.0))
