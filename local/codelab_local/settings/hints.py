"""What looks wrong in the environment, and is no error: a misspelt setting, or one that has no effect alone."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from codelab_local.settings.settings import Model

#: What the local cloud itself reads, see `settings`.
OWN = frozenset({"HOST", "PORT", "STATE_DIR", "LOCAL_CONCURRENCY", "ALLOWED_HOSTS", "ALLOWED_ORIGINS", "INSPECT"})
_LIKE = 0.8


def hints(
    environment: Mapping[str, str], functions: Collection[str], model: Model | None, *, demo_model: bool
) -> Iterator[str]:
    """Sentences for the user. functions: the variables that the functions read. demo_model: that one answers."""
    known_names = sorted({*functions, *OWN})
    for name, value in sorted(environment.items()):
        if not value or name in known_names or "_" not in name:
            continue
        near = difflib.get_close_matches(name.upper(), known_names, n=1, cutoff=_LIKE)
        if near and near[0] not in environment:
            yield f"{name} is no setting; did you mean {near[0]}?"
    if model is None:
        return
    lone = [name for name in (model.key, model.name, *model.other_variables) if environment.get(name)]
    if demo_model and lone:
        setup = f", or run {model.setup}" if model.setup else ""
        yield (
            f"{lone[0]} has no effect without {model.url}, so the demonstration model answers: set {model.url} to "
            f"the address of the model's endpoint{setup}"
        )
    elif not demo_model and environment.get(model.url) and not environment.get(model.name):
        yield f"{model.name} is not set: name the model that the endpoint at {model.url} has"
