"""Prices, capabilities and plans that do not fit a function's environment."""

MODELS = [f"us.vendor.family-model-{number}-2026-11-27-v1:0" for number in range(14)]
PRICES = {model: {"prompt": 0.4, "completion": 1.6, "cached": 0.1, "cache_write": 0.5} for model in MODELS}
CAPABILITIES = {model: {"window": 65_536, "images": True, "thinking": ["none", "low", "high"]} for model in MODELS}
PLANS = {
    "trial": {"open_turns": 2, "messages_per_minute": 5, "tokens_per_day": 200_000, "stored_bytes_per_day": 10_000_000},
    "team": {"open_turns": 50, "messages_per_minute": 120, "tokens_per_day": 50_000_000},
    "unlimited": {"open_turns": 0, "tokens_per_day": 0, "requests_per_minute": 0, "connections_per_minute": 0},
}
