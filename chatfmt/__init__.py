"""Four LLM chat templates in plain Python: the bytes of the original templates, without Jinja."""

from ._base import ChatFormat, Segment
from ._conversation import Conversation, Prompt
from ._errors import ChatFormatError, InputError, TemplateError
from .domyn_small import DomynSmall
from .hy4 import Hy4
from .ministral3_reasoning import Ministral3Reasoning
from .solar_open2 import SolarOpen2

__version__ = "0.1.0"

TEMPLATES = {format.name: format for format in (SolarOpen2, Hy4, Ministral3Reasoning, DomynSmall)}

__all__ = [
    "TEMPLATES",
    "ChatFormat",
    "ChatFormatError",
    "Conversation",
    "DomynSmall",
    "Hy4",
    "InputError",
    "Ministral3Reasoning",
    "Prompt",
    "Segment",
    "SolarOpen2",
    "TemplateError",
]
