"""Tools that read and change files (Tools Specification, "File Operations" and "Advanced File Operations")."""

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import PATH, arguments, array, boolean, done, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

_PLACES = (ErrorCode.PERMISSION_DENIED, ErrorCode.INVALID_PATH, ErrorCode.PATH_OUTSIDE_WORKSPACE)
_ON_WINDOWS = "Paths use forward slashes; on Windows the IDE converts them."

_ENTRY = ResultForm(
    reply(
        {"name": string("Name, or with `recursive` the path relative to the listed directory")},
        {"type": string("file or directory"), "size": integer("Bytes", minimum=0)},
    ),
    names={"name": ("path", "file", "filename")},
    bare="name",
)
_MATCH = ResultForm(
    reply(
        {"path": string("File relative to the workspace")},
        {"line": integer("Line number, from 1", minimum=0), "text": string("The matching line")},
    ),
    names={
        "path": ("file", "file_path", "filename", "name"),
        "line": ("line_number", "lineNumber"),
        "text": ("content", "match", "preview", "line_text"),
    },
    bare="path",
)

TOOLS = (
    Tool(
        name="read_file",
        kind="read",
        title="Read {path}",
        description="Read a text file of the workspace. Read a file before you change it.",
        parameters=arguments({"path": PATH}),
        result=ResultForm(
            reply(
                {"content": string("The whole file")},
                {
                    "encoding": string("Always utf-8"),
                    "size": integer("Bytes", minimum=0),
                    "modified": string("When it was last changed, ISO 8601"),
                },
            ),
            names={"content": ("text", "data")},
            bare="content",
        ),
        paths=("path",),
        result_byte_limits={"content": limits.FILE_BYTES},
        errors=(ErrorCode.FILE_NOT_FOUND, ErrorCode.FILE_TOO_LARGE, ErrorCode.ENCODING_ERROR, *_PLACES),
        platforms=_ON_WINDOWS + " UTF-8 text only; a binary file is an ENCODING_ERROR.",
        examples=(
            Example({"path": "src/auth.js"}, {"content": "// File content here...", "encoding": "utf-8"}),
            Example(
                {"path": "src/main.dart"},
                {"content": "void main() { ... }", "size": 1024, "modified": "2024-01-09T10:00:00Z"},
            ),
        ),
    ),
    Tool(
        name="write_file",
        kind="edit",
        title="Write {path}",
        description="Write a whole file. Creates it and its directories, or replaces its content.",
        parameters=arguments({"path": PATH, "content": string("The complete new content")}),
        result=done(bytes_written=integer("Number of bytes written", minimum=0)),
        risk="write",
        approval=True,
        paths=("path",),
        byte_limits={"content": limits.FILE_BYTES},
        errors=(ErrorCode.FILE_TOO_LARGE, ErrorCode.ENCODING_ERROR, *_PLACES),
        platforms=_ON_WINDOWS + " The IDE writes the content unchanged, with the agent's line endings.",
        examples=(
            Example(
                {"path": "src/logger.js", "content": "export const log = (msg) => console.log(msg);"},
                {"success": True, "bytes_written": 48},
            ),
        ),
    ),
    Tool(
        name="list_files",
        kind="search",
        title="List {path}",
        description="List the files of a directory of the workspace.",
        parameters=arguments(
            {"path": string("Directory relative to the workspace, '.' for all of it")},
            {
                "recursive": boolean("Descend into subdirectories"),
                "pattern": string("Glob that names must match, for example *.dart"),
            },
        ),
        result=ResultForm(
            reply({"files": array(_ENTRY.schema, "The directory's entries")}),
            names={"files": ("items", "entries")},
            bare="files",
            parts={"files": _ENTRY},
        ),
        paths=("path",),
        errors=(ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms=_ON_WINDOWS + " The IDE may leave out files that version control ignores.",
        examples=(
            Example(
                {"path": "src", "recursive": False},
                {
                    "files": [
                        {"name": "main.dart", "type": "file", "size": 1024},
                        {"name": "utils", "type": "directory"},
                    ]
                },
            ),
            Example(
                {"path": "src", "recursive": True, "pattern": "*.dart"},
                {"files": [{"name": "main.dart", "type": "file"}, {"name": "utils/log.dart", "type": "file"}]},
            ),
        ),
    ),
    Tool(
        name="search_in_project",
        kind="search",
        title="Search for {query}[ in {path}]",
        description="Search the contents of the workspace's files for a text.",
        parameters=arguments(
            {"query": string("The text to search for", minLength=1)},
            {
                "path": string("Directory or file to search in, '.' or absent for the whole workspace"),
                "case_sensitive": boolean("Match case; absent: ignore case"),
            },
        ),
        result=ResultForm(
            reply(
                {"matches": array(_MATCH.schema, "Where it was found")},
                {"truncated": boolean("Whether there are more matches")},
            ),
            names={"matches": ("results", "items", "files")},
            bare="matches",
            parts={"matches": _MATCH},
        ),
        paths=("path",),
        operands=("path",),
        errors=(ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms=_ON_WINDOWS
        + " An IDE that runs a program such as ripgrep passes the query with `-e` and the path after `--`.",
        examples=(
            Example(
                {"query": "authenticate", "path": "src", "case_sensitive": False},
                {"matches": [{"path": "src/auth.js", "line": 12, "text": "export function authenticate(user) {"}]},
            ),
        ),
    ),
    Tool(
        name="create_directory",
        kind="edit",
        title="Create {path}",
        description="Create a directory and its parents. Succeeds if the directory exists.",
        parameters=arguments({"path": PATH}),
        result=done(),
        risk="write",
        approval=True,
        paths=("path",),
        errors=_PLACES,
        platforms=_ON_WINDOWS,
        examples=(Example({"path": "src/utils"}, {"success": True}),),
    ),
    Tool(
        name="delete_file",
        kind="delete",
        title="Delete {path}",
        description="Delete a file, or a directory with everything in it.",
        parameters=arguments({"path": PATH}),
        result=done(),
        risk="write",
        approval=True,
        paths=("path",),
        trees=("path",),
        errors=(ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms=_ON_WINDOWS + " The IDE may move it to the trash instead.",
        examples=(Example({"path": "src/old_file.js"}, {"success": True}),),
    ),
    Tool(
        name="move_file",
        kind="move",
        title="Move {from} to {to}",
        description="Move or rename a file or a directory.",
        parameters=arguments(
            {
                "from": string("Current path, relative to the workspace"),
                "to": string("New path, relative to the workspace"),
            }
        ),
        result=done(),
        risk="write",
        approval=True,
        paths=("from", "to"),
        trees=("from", "to"),
        errors=(ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms=_ON_WINDOWS,
        examples=(Example({"from": "src/old.js", "to": "src/new.js"}, {"success": True}),),
    ),
)
