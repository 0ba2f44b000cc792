"""Everything in `codelab.llm` but `client` is pure: it imports no AWS SDK, no HTTP client, no thread and no clock."""

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

_PACKAGE = Path(next(iter(find_spec("codelab.llm").submodule_search_locations)))
_PURE = sorted(
    ".".join(("codelab.llm", *path.relative_to(_PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in _PACKAGE.rglob("*.py")
    if path.relative_to(_PACKAGE).parts[0] != "client"
)
_BLOCKED = ("boto3", "botocore", "openai", "httpx", "httpx2", "urllib3", "aws_lambda_powertools", "fastapi")
_IMPURE = {"asyncio", "concurrent", "datetime", "http", "os", "queue", "random", "socket", "ssl", "subprocess",
           "threading", "time", "urllib.request"}  # fmt: skip

_BARE_INTERPRETER = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_BLOCKED!r}:
            raise ImportError(f"{{name}} is blocked")

sys.meta_path.insert(0, Blocker())
import {", ".join(_PURE)}
print(*(name for name in sys.modules if name.startswith("codelab.")))
"""


def test_pure_modules_import_no_client_of_any_service() -> None:
    run = subprocess.run([sys.executable, "-c", _BARE_INTERPRETER], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert not [name for name in run.stdout.split() if not name.startswith("codelab.llm") or ".client" in name]


@pytest.mark.parametrize("module", _PURE)
def test_a_pure_module_uses_no_thread_clock_or_network(module: str) -> None:
    path = _PACKAGE.joinpath(*module.split(".")[2:])
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert not imported & _IMPURE


def test_preparing_a_request_imports_no_client_of_any_service() -> None:
    code = """
import sys
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig

schema = {"type": "object", "properties": {"a": {"type": "string"}}}
Request(RequestConfig("m"), schema, [{"role": "user", "content": "x"}])
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = run.stdout.split()
    assert not {name.partition(".")[0] for name in names} & {*_BLOCKED, "pydantic", "llguidance"}
    assert {name.split(".")[1] for name in names if name.startswith("codelab.")} == {"llm"}
