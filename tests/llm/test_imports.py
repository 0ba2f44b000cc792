"""What importing the package costs: no SDK, no HTTP client, no AWS."""

import subprocess
import sys


def loaded(code: str) -> set[str]:
    check = f"import sys\n{code}\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in out.stdout.split()}


def test_importing_it_and_preparing_a_request_imports_no_client() -> None:
    code = """
from codelab.llm.client.request import Request
from codelab.llm.config import RequestConfig
schema = {"type": "object", "properties": {"a": {"type": "string"}}}
Request(RequestConfig("m"), schema, [{"role": "user", "content": "x"}])
"""
    assert not loaded(code) & {"openai", "httpx", "httpx2", "boto3", "botocore", "pydantic", "llguidance"}


def test_it_stands_alone() -> None:
    check = """
import sys, codelab.llm.client.request
print(*(name for name in sys.modules if name.startswith("codelab.")))
"""
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert {name.split(".")[1] for name in out.stdout.split()} == {"llm"}
