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
_LINES = {"type": "string"}
_GLOB = string(
    "Only files whose path below `path` matches: `*.py` in any directory, `src/**/*.py` below src", minLength=1
)
_MATCH = ResultForm(
    reply(
        {"path": string("File relative to the workspace")},
        {
            "line": integer("Line number, from 1", minimum=0),
            "text": string("The matching line"),
            "before": array(_LINES, "With `context`: the lines before it"),
            "after": array(_LINES, "With `context`: the lines after it"),
        },
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
        parameters=arguments(
            {"path": PATH},
            {
                "offset": integer("The first line to read, from 1; absent: 1", minimum=1),
                "limit": integer("How many lines to read; absent: all", minimum=1),
            },
        ),
        extras=("offset", "limit"),
        result=ResultForm(
            reply(
                {"content": string("The whole file, or the lines asked for with their line ends")},
                {
                    "first_line": integer(
                        "The number of the content's first line. With it, the agent sees line numbers", minimum=1
                    ),
                    "total_lines": integer("How many lines the whole file has", minimum=0),
                    "encoding": string(
                        "utf-8, or the encoding that the IDE has decoded, in which it writes the file back"
                    ),
                    "size": integer("Bytes", minimum=0),
                    "modified": string("When it was last changed, ISO 8601"),
                    "message": string("Why there is less than was asked for"),
                },
            ),
            names={"content": ("text", "data")},
            bare="content",
        ),
        paths=("path",),
        result_byte_limits={"content": limits.FILE_BYTES},
        errors=(ErrorCode.FILE_NOT_FOUND, ErrorCode.FILE_TOO_LARGE, ErrorCode.ENCODING_ERROR, *_PLACES),
        platforms=_ON_WINDOWS + " An IDE may read other encodings than UTF-8; a binary file is an ENCODING_ERROR.",
        examples=(
            Example({"path": "src/auth.js"}, {"content": "// File content here...", "encoding": "utf-8"}),
            Example(
                {"path": "src/main.dart"},
                {"content": "void main() { ... }", "size": 1024, "modified": "2024-01-09T10:00:00Z"},
            ),
            Example(
                {"path": "src/main.dart", "offset": 40, "limit": 2},
                {"content": "int add(int a, int b) {\n  return a + b;\n", "first_line": 40, "total_lines": 96},
            ),
            Example(
                {"path": "src/main.dart", "offset": 100},
                {"content": "", "total_lines": 96, "message": "src/main.dart has only 96 lines"},
                note="Beyond the end of the file.",
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
        platforms=_ON_WINDOWS
        + " The IDE writes the content unchanged, with the agent's line endings, or keeps the encoding, the byte order "
        "mark and the line endings of the file that it replaces, and says so in `message`. It may refuse to replace a "
        "file that is not as the agent has read it, or the user has seen it. It may also refuse, once, a text with a "
        "line that stands for code that is left out, such as `... existing code ...`.",
        examples=(
            Example(
                {"path": "src/logger.js", "content": "export const log = (msg) => console.log(msg);"},
                {"success": True, "bytes_written": 48},
            ),
        ),
    ),
    Tool(
        name="edit_file",
        kind="edit",
        title="Edit {path}",
        description="Replace texts in a file. Prefer it to write_file for changes: it is exact and short. Each `old` "
        "must be copied exactly, with its indentation but without line numbers, and occur once: add lines around it "
        "until it does.",
        parameters=arguments(
            {
                "path": PATH,
                "edits": array(
                    arguments(
                        {
                            "old": string("The exact text to replace", minLength=1),
                            "new": string("The text in its place; may be empty"),
                        },
                        {"replace_all": boolean("Replace every occurrence of old")},
                    ),
                    "All of them refer to the file as it was, and must not overlap",
                    minItems=1,
                    maxItems=limits.EDITS,
                ),
            }
        ),
        extension=True,
        result=done(
            replacements=integer("How many texts were replaced", minimum=0),
            matched=string("Which lines differed from `old` in whitespace, and were replaced all the same"),
        ),
        risk="write",
        approval=True,
        listed_with="write_file",
        paths=("path",),
        errors=(
            ErrorCode.FILE_NOT_FOUND,
            ErrorCode.PATCH_APPLY_FAILED,
            ErrorCode.FILE_TOO_LARGE,
            ErrorCode.ENCODING_ERROR,
            *_PLACES,
        ),
        platforms=_ON_WINDOWS
        + " All edits are made or none. If `old` is missing or occurs more than once, nothing is changed and the error "
        "PATCH_APPLY_FAILED shows the closest lines. An IDE may take the only place whose lines differ from `old` in "
        "spaces at their ends or in the indentation of all; then it indents `new` like it, shows the user what it will "
        "write, and names the lines in `matched`. If every line of the file ends with CRLF, so do the lines of "
        "`old` and `new`, however they are given; if only some do, a line end of `old` matches both. An IDE may "
        "refuse, once, a `new` with a line that stands for code that is left out, such as `... existing code ...`.",
        examples=(
            Example(
                {"path": "src/auth.js", "edits": [{"old": "retries = 3", "new": "retries = 5"}]},
                {"success": True, "replacements": 1},
            ),
            Example(
                {"path": "src/auth.js", "edits": [{"old": "log(", "new": "logger.info(", "replace_all": True}]},
                {"success": True, "replacements": 4},
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
        name="find_files",
        kind="search",
        title="Find {glob}[ in {path}]",
        description="Find files by their names, for example **/*_test.py.",
        parameters=arguments(
            {"glob": _GLOB},
            {
                "path": string("Directory to search in, '.' or absent for the whole workspace"),
                "max_results": integer("How many files at most; absent: 200", minimum=1, maximum=5_000),
            },
        ),
        extension=True,
        result=ResultForm(
            reply(
                {"files": array(PATH, "The files, sorted by path")},
                {"truncated": boolean("Whether there are more")},
            ),
            names={"files": ("items", "matches", "paths")},
            bare="files",
        ),
        paths=("path",),
        errors=(ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms=_ON_WINDOWS + " The IDE may leave out files that version control ignores.",
        examples=(Example({"glob": "**/*_test.dart"}, {"files": ["test/app_test.dart"], "truncated": False}),),
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
                "regex": boolean("The query is a regular expression (RE2), matched within a line"),
                "glob": _GLOB,
                "context": integer("Lines to show before and after each match", minimum=0, maximum=10),
                "max_results": integer("How many matches at most; absent: as many as the IDE allows", minimum=1),
            },
        ),
        extras=("regex", "glob", "context", "max_results"),
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
            Example(
                {"query": "TODO|FIXME", "regex": True, "glob": "*.js", "context": 1, "max_results": 50},
                {
                    "matches": [
                        {
                            "path": "src/auth.js",
                            "line": 3,
                            "text": "// TODO: lock",
                            "before": ["let users = [];"],
                            "after": ["users.push(user);"],
                        }
                    ],
                    "truncated": False,
                },
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
