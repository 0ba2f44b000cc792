"""Arguments and paths are checked before a call leaves the server."""

import pytest
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.paths import workspace_path
from codelab.protocol.tools import CATALOGUE, find_tool


@pytest.mark.parametrize("path", ["a.py", "src/main.dart", ".", ".gitignore", "папка/файл.txt", "a..b/c", "x" * 255])
def test_relative_paths_pass(path):
    assert workspace_path(path) == path


def test_one_leading_slash_is_stripped_in_lenient_mode_only():
    assert workspace_path("/src/main.dart") == "src/main.dart"
    with pytest.raises(ProtocolError) as caught:
        workspace_path("/src/main.dart", lenient=False)
    assert caught.value.code is ErrorCode.PATH_OUTSIDE_WORKSPACE


@pytest.mark.parametrize(
    "path", ["../a", "a/../../b", "..", "a\\..\\b", "//server/x", "\\\\server\\x", "C:\\x", "c:/x", "~/x"]
)
def test_paths_that_lead_out_are_refused(path):
    with pytest.raises(ProtocolError) as caught:
        workspace_path(path)
    assert caught.value.code is ErrorCode.PATH_OUTSIDE_WORKSPACE


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 256])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ProtocolError) as caught:
        workspace_path(path)
    assert caught.value.code is ErrorCode.INVALID_PATH


def test_a_file_over_one_megabyte_is_refused():
    tool = find_tool("write_file")
    tool.check({"path": "a", "content": "x" * 1_000_000})
    with pytest.raises(ProtocolError) as caught:
        tool.check({"path": "a", "content": "я" * 500_001})
    assert caught.value.code is ErrorCode.FILE_TOO_LARGE


def test_every_tool_names_its_path_arguments_in_its_schema():
    for tool in CATALOGUE.values():
        assert set(tool.paths) <= set(tool.parameters["properties"])
        assert set(tool.byte_limits) <= set(tool.parameters["properties"])


def test_an_unknown_tool_is_not_found():
    with pytest.raises(ProtocolError) as caught:
        find_tool("format_disk")
    assert caught.value.code is ErrorCode.TOOL_NOT_FOUND
