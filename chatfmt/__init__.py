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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._check import Finding, check
    from ._detect import detect, explain
    from ._facts import FACTS, Fact, Facts, Option
    from ._mask import Mask, mask
    from ._openai import from_openai, tools_from_openai
    from ._pieces import Injection, Piece, injections, pieces
    from ._samples import Sample, TrainingText, samples, training_texts

_MODULES = {  # what rendering does not need is imported when it is first asked for
    "Finding": "_check",
    "check": "_check",
    "detect": "_detect",
    "explain": "_detect",
    "FACTS": "_facts",
    "Fact": "_facts",
    "Facts": "_facts",
    "Option": "_facts",
    "Mask": "_mask",
    "mask": "_mask",
    "from_openai": "_openai",
    "tools_from_openai": "_openai",
    "Injection": "_pieces",
    "Piece": "_pieces",
    "injections": "_pieces",
    "pieces": "_pieces",
    "Sample": "_samples",
    "TrainingText": "_samples",
    "samples": "_samples",
    "training_texts": "_samples",
}

__all__ = [
    "FACTS",
    "TEMPLATES",
    "ChatFormat",
    "ChatFormatError",
    "Conversation",
    "DomynSmall",
    "Fact",
    "Facts",
    "Finding",
    "Hy4",
    "Injection",
    "InputError",
    "Mask",
    "Ministral3Reasoning",
    "Option",
    "Piece",
    "Prompt",
    "Sample",
    "Segment",
    "SolarOpen2",
    "TemplateError",
    "TrainingText",
    "check",
    "detect",
    "explain",
    "from_openai",
    "injections",
    "mask",
    "pieces",
    "samples",
    "tools_from_openai",
    "training_texts",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES and name != "hf":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "hf":
        return import_module(".hf", __name__)
    value: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
