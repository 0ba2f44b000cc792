"""Which models there are, and how much of a session fits them."""

import pytest
from codelab.config import ConfigurationError, Settings, read_settings
from codelab.llm.models import capabilities_of, settable
from codelab.llm.profiles import PROFILES
from codelab.sessions.register import Register
from codelab.turns import models

from tests.cases import cases


@cases(
    ("name", "window", "images", "thinking"),
    [
        ("gpt-4.1-mini", 1_047_576, True, ()),
        ("openai/gpt-5-mini", 400_000, True, ("low", "medium", "high")),
        ("gpt-5.1-codex", 400_000, True, ("none", "low", "medium", "high")),
        ("o4-mini", 200_000, True, ("low", "medium", "high")),
        ("openai.gpt-oss-120b-1:0", 131_072, False, ("low", "medium", "high")),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", 200_000, True, ("none", "low", "medium", "high")),
        ("claude-opus-5", 200_000, True, ("none", "low", "medium", "high")),
        ("claude-opus-5-5", 200_000, True, ("low", "medium", "high")),
        ("claude-3-5-haiku-latest", 200_000, True, ()),
        ("deepseek-reasoner", 128_000, False, ("none", "high")),
        ("qwen3-coder:30b", 256_000, False, ()),
        ("global.openai.gpt-6-luna", 1_000_000, True, ("low", "medium", "high")),
        ("qwen2.5-vl-72b", 128_000, True, ()),
        ("foo3-large", 32_768, False, ()),
    ],
)
def test_a_model_is_known_by_its_name_in_any_dress(name: str, window: int, images: bool, thinking: tuple[str]) -> None:
    found = capabilities_of(name)
    assert (found.window, found.images, found.thinking) == (window, images, thinking)


def test_a_level_needs_the_model_and_the_profile() -> None:
    model = capabilities_of("gpt-5.1")
    assert settable(model, "openai") == ("none", "low", "medium", "high")
    assert settable(model, "vllm") == ("none", "high")
    assert settable(model, "generic") == ()


def test_every_level_of_every_profile_is_a_valid_setting_of_a_request() -> None:
    from codelab.llm.config import RequestConfig

    for profile in PROFILES.values():
        for changes in profile.thinking_levels.values():
            RequestConfig(model="m", provider=profile.name).changed(**changes).check()


def test_auto_is_what_fits_the_window_up_to_the_ceiling() -> None:
    settings = Settings(llm_model="gpt-4.1", llm_models="unheard-of, gpt-3.5-turbo")
    sizes = {found.name: found.context_tokens for found in models.selectable_models(settings)}
    assert sizes == {"gpt-4.1": 128_000, "unheard-of": 24_576, "gpt-3.5-turbo": 16_385 - 16_385 // 4}
    assert next(iter(sizes)) == "gpt-4.1", "the default comes first"
    assert models.most_messages(settings) == 400


def test_the_operators_numbers_and_facts_take_precedence() -> None:
    settings = read_settings(
        {
            "AUTH_MODE": "jwt",
            "LLM_MODEL": "local",
            "LLM_CAPABILITIES": '{"local": {"window": 8192, "images": true, "thinking": ["high", "none"],'
            ' "patches": true, "strategy": "calls"}}',
        }
    )
    assert [found.model_dump() for found in models.selectable_models(settings)] == [
        {"name": "local", "context_tokens": 8_192 - 2_048, "images": True, "thinking": ["none", "high"]}
    ]
    assert models.capabilities("local", settings).patches
    assert models.capabilities("local", settings).strategy == "calls"
    assert not models.capabilities("gpt-4.1", settings).patches, "no row of the table has them"
    fixed = read_settings({"LLM_MODEL": "gpt-4.1", "MAX_CONTEXT_TOKENS": "8000", "MAX_CONTEXT_MESSAGES": "50"})
    assert (models.context_tokens("gpt-4.1", fixed), models.most_messages(fixed)) == (8_000, 50)
    assert read_settings({"MAX_CONTEXT_TOKENS": "auto"}).max_context_tokens is None


@cases(
    ("variable", "value"),
    [
        ("MAX_CONTEXT_TOKENS", "lots"),
        ("MAX_CONTEXT_TOKENS", "100"),
        ("MAX_CONTEXT_MESSAGES", "1"),
        ("LLM_CAPABILITIES", '{"m": {"windows": 1}}'),
        ("LLM_CAPABILITIES", '{"m": {"thinking": ["much"]}}'),
    ],
)
def test_a_wrong_value_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{variable}="):
        read_settings({variable: value})


def test_the_providers_own_counts_correct_the_estimate() -> None:
    settings = Settings(llm_model="gpt-4.1")
    register = Register("ann", "s1", 0, "universal", token_scale=1_250)
    found = models.budget(register, settings)
    assert (found.tokens, found.capacity) == (128_000, 102_400)
    assert models.budget(Register("ann", "s1", 0, "universal"), settings).capacity == 128_000


def test_the_model_that_answers_is_the_users_choice_else_the_operators() -> None:
    settings = Settings(llm_model="a", llm_models="b")
    register = Register("ann", "s1", 0, "universal")
    assert models.model_of(register, settings) == "a"
    register.settings["model"] = "b"
    assert models.model_of(register, settings) == "b"
    register.settings["model"] = "no longer offered"
    assert models.model_of(register, settings) == "a"
