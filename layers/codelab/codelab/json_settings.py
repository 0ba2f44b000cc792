"""Settings that are JSON. Only processes that have one import this, because pydantic takes long to import."""

from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from codelab.llm.profiles import Level, PastReasoning, Strategy

Natural = Annotated[int, Field(ge=0)]


class Price(BaseModel):
    """What a model costs, in US dollars for a million tokens.

    cached, cache_write: for those of the prompt that the provider reads from its cache, and writes to it; None: as
    `prompt`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: Annotated[float, Field(ge=0)]
    completion: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None
    cache_write: Annotated[float, Field(ge=0)] | None = None


class ModelCapabilities(BaseModel):
    """What a model can take, see `codelab.llm.models`; None for what its table says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: Annotated[int, Field(ge=2_000)] | None = None
    images: bool | None = None
    thinking: list[Level] | None = None
    patches: bool | None = None
    strategy: Strategy | None = None
    past_reasoning: PastReasoning | None = None
    text_calls: bool | None = None
    subagents: bool | None = None


class PlanLimits(BaseModel):
    """Limits that differ from the usual ones, see `codelab.config.Limits`; None for those that do not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages_per_minute: Natural | None = None
    requests_per_minute: Natural | None = None
    tokens_per_day: Natural | None = None
    connections_per_minute: Natural | None = None
    stored_bytes_per_day: Natural | None = None
    open_turns: Annotated[int, Field(ge=0, le=90)] | None = None


_M = TypeVar("_M", bound=BaseModel)


def by_name(model: type[_M], text: str) -> Mapping[str, _M]:
    """A JSON object of such models. Raises ValueError, which names the place."""
    try:
        return TypeAdapter(dict[str, model]).validate_json(text)  # type: ignore[valid-type]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError((f"{place}: " if place else "") + first["msg"].lower()) from None
