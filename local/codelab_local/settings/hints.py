"""What looks wrong in the environment, and is no error: a misspelt setting, or one that has no effect alone."""

import difflib
from collections.abc import Collection, Iterator, Mapping

#: What the local cloud itself reads, see `settings`.
OWN = frozenset(
    {
        "HOST",
        "PORT",
        "STATE_DIR",
        "LOCAL_CONCURRENCY",
        "ALLOWED_HOSTS",
        "ALLOWED_ORIGINS",
        "SIGN_IN_ORIGINS",
        "INSPECT",
        "LLM_GGUF",
    }
)
_LIKE = 0.8


def hints(environment: Mapping[str, str], functions: Collection[str], *, demo_model: bool) -> Iterator[str]:
    """Sentences for the user. functions: the variables that the functions read. demo_model: that one answers."""
    known_names = sorted({*functions, *OWN})
    for name, value in sorted(environment.items()):
        if not value or name in known_names or "_" not in name:
            continue
        near = difflib.get_close_matches(name.upper(), known_names, n=1, cutoff=_LIKE)
        if near and near[0] not in environment:
            yield f"{name} is no setting; did you mean {near[0]}?"
    lone = [name for name in ("LLM_API_KEY", "LLM_MODEL", "LLM_PROVIDER") if environment.get(name)]
    if demo_model and lone:
        yield (
            f"{lone[0]} has no effect without LLM_BASE_URL, so the demonstration model answers: set LLM_BASE_URL to "
            "the address of the model's endpoint, or run .venv/bin/codelab setup"
        )
    elif not demo_model and environment.get("LLM_BASE_URL") and not environment.get("LLM_MODEL"):
        yield "LLM_MODEL is not set: name the model that the endpoint at LLM_BASE_URL has"
