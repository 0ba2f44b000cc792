"""`python -m infra.docs` writes the generated documents; `--check` only lists the stale ones."""

import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from codelab.protocol import protected
from codelab.rest.app import create_app

from infra.docs import (
    asyncapi,
    characters,
    errors,
    frames,
    named_schemas,
    one_request,
    parameters,
    protected_paths,
    schemas,
    settings,
    tools,
    typescript,
)
from infra.observability import template

ROOT = Path(__file__).resolve().parents[2]


def documents() -> dict[str, str]:
    """The text of every generated document, by path."""
    bundle = schemas.bundle()
    declarations = typescript.declarations(bundle, tools.schemas())
    return {
        "docs/asyncapi.yaml": asyncapi.text(bundle),
        "docs/schemas/frames.json": _json(bundle),
        "clients/codelab_client/codelab_client/judge/frames.json": _json(bundle),
        "clients/typescript/src/protocol.ts": declarations,
        "clients/typescript/src/protected.ts": protected_paths.module(),
        "clients/web/src/conversation/characters.ts": characters.module(),
        "docs/frames.md": frames.page(bundle),
        "docs/one-request.md": one_request.page(),
        "docs/tools.md": tools.page(),
        "docs/errors.md": errors.page(),
        "docs/parameters.md": parameters.page(ROOT / "template.yaml"),
        "docs/settings.md": settings.page(ROOT / "template.yaml"),
        "docs/openapi.json": _json(_openapi()),
        "docs/schemas/tools.json": _json(tools.schemas()),
        "infra/observability.yaml": template.text(ROOT / "template.yaml"),
        "clients/codelab_client/codelab_client/protected.py": _of_client(protected),
    }


def _openapi() -> dict[str, Any]:
    """The document that a running system serves, with a name for each schema."""
    document: dict[str, Any] = create_app().openapi()
    document["components"]["schemas"] = named_schemas.with_names(document["components"]["schemas"])
    return document


def _of_client(module: ModuleType) -> str:
    """A module that the client shares with the server: it imports nothing of the server, so it gets a copy."""
    return f"# Written by `make docs` from the server's {module.__name__}; do not edit.\n\n{inspect.getsource(module)}"


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    check = "--check" in arguments
    stale = []
    for name, text in documents().items():
        path = ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"docs: {name}\n")
    if check and stale:
        sys.stderr.write(f"{', '.join(stale)}: stale; run 'make docs'\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
