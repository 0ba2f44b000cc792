"""What the root process imports and reads for all functions, found by reading their sources."""

from pathlib import Path

from codelab_local.function_environment import aws_clients, shared_imports

SOURCE = '''"""from here on: that is prose
import nothing of this
"""
import os, boto3, fastapi.routing as routing  # why
from pydantic import (
    BaseModel,
)
from own import thing
from . import near
def late():
    import openai
    return boto3.client("dynamodb"), boto3.resource(
        's3'
    ), boto3.client(os.environ["SERVICE"])
'''


def test_the_sources_are_read_for_packages_and_for_services(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(SOURCE)
    (tmp_path / "own.py").write_text("this is no Python")
    assert shared_imports([tmp_path]) == ["boto3", "fastapi.routing", "pydantic"]
    assert shared_imports([tmp_path], ["own"]) == ["boto3", "fastapi.routing", "own", "pydantic"]
    assert aws_clients([tmp_path]) == ["dynamodb", "s3"]
