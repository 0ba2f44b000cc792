"""Git tools (Tools Specification, "Git Operations" and "Advanced Git Operations").

The document excludes remotes, so no tool here uses one. The policy still knows `git.push`, because the Agent Protocol
lists it among the dangerous operations, but no agent gets it.
"""

from typing import Any

from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import PATH, arguments, array, boolean, done, integer, reply, string
from codelab.protocol.tools.tool import Example, Tool

_GIT = (ErrorCode.GIT_NOT_INITIALIZED, ErrorCode.GIT_ERROR)
_PLACES = (ErrorCode.INVALID_PATH, ErrorCode.PATH_OUTSIDE_WORKSPACE)
_SETUP = "The workspace must be a git repository and git must be installed."
_PATHS = _SETUP + " An IDE that runs git passes paths after `--` and literally (`git --literal-pathspecs`)."
_READING = _PATHS + " It also passes `--no-ext-diff --no-textconv`, so that no configured program runs."

_FILE_STATUS = ResultForm(
    reply(
        {"path": PATH},
        {
            "status": string("modified, added, deleted, renamed or untracked"),
            "staged": boolean("Whether the change is staged"),
        },
    ),
    names={"path": ("file", "name")},
    bare="path",
)
_COMMIT = ResultForm(
    reply(
        {"message": string("The commit's message")},
        {"hash": string("Its hash"), "author": string("Its author"), "date": string("When, ISO 8601")},
    ),
    names={"hash": ("sha", "id", "commit"), "message": ("subject", "title")},
    bare="message",
)
_BRANCH: dict[str, Any] = arguments(
    {"action": string("What to do", enum=["list", "create", "switch", "delete"])},
    {"name": string("The branch; not for list", minLength=1, maxLength=255)},
)

TOOLS = (
    Tool(
        name="git.diff",
        kind="read",
        title="Show the changes of {path}",
        description="Show changes that are not committed.",
        parameters=arguments(
            {"path": string("Path to compare, '.' for the whole project")},
            {"staged": boolean("Show staged changes; absent: unstaged changes")},
        ),
        result=ResultForm(
            reply({"diff": string("A unified diff, empty if nothing changed")}),
            names={"diff": ("patch", "output", "content")},
            bare="diff",
        ),
        paths=("path",),
        operands=("path",),
        result_byte_limits={"diff": limits.DIFF_BYTES},
        errors=(*_GIT, *_PLACES),
        platforms=_READING,
        examples=(
            Example(
                {"path": ".", "staged": False},
                {"diff": "diff --git a/main.dart b/main.dart\n..."},
            ),
        ),
    ),
    Tool(
        name="git.status",
        kind="read",
        title="Show the status[ of {path}]",
        description="Show the branch and the changed files.",
        parameters=arguments({}, {"path": string("Path to look at, '.' or absent for the whole project")}),
        result=ResultForm(
            reply(
                {"files": array(_FILE_STATUS.schema, "Changed files, empty if there are none")},
                {"branch": string("The current branch")},
            ),
            names={"files": ("items", "changes", "entries")},
            bare="files",
            parts={"files": _FILE_STATUS},
        ),
        paths=("path",),
        operands=("path",),
        errors=(*_GIT, *_PLACES),
        platforms=_PATHS,
        examples=(
            Example(
                {"path": "."},
                {"branch": "main", "files": [{"path": "src/auth.js", "status": "modified", "staged": False}]},
            ),
        ),
    ),
    Tool(
        name="git.log",
        kind="read",
        title="Show the log[ of {path}]",
        description="Show the history, newest commit first.",
        parameters=arguments(
            {},
            {
                "limit": integer("How many commits at most; absent: 10", minimum=1, maximum=1000),
                "path": string("Only commits that changed this path"),
            },
        ),
        result=ResultForm(
            reply({"commits": array(_COMMIT.schema, "Commits, newest first")}),
            names={"commits": ("items", "log", "entries", "history")},
            bare="commits",
            parts={"commits": _COMMIT},
        ),
        paths=("path",),
        operands=("path",),
        errors=(*_GIT, *_PLACES),
        platforms=_READING,
        examples=(
            Example(
                {"limit": 10, "path": "src/auth.js"},
                {
                    "commits": [
                        {
                            "hash": "1234567",
                            "author": "Ann",
                            "date": "2024-01-09T10:00:00Z",
                            "message": "Add authentication logging",
                        }
                    ]
                },
            ),
        ),
    ),
    Tool(
        name="git.branch",
        title="git branch: {action}[ {name}]",
        description="List, create, switch to or delete a branch.",
        parameters=_BRANCH
        | {
            "if": {"properties": {"action": {"const": "list"}}},
            "else": {"required": ["name"]},
        },
        result=ResultForm(
            reply(
                {},
                {
                    "success": boolean("Whether it was done"),
                    "current": string("The current branch"),
                    "branches": array({"type": "string"}, "All branches, for list"),
                    "message": string("Git's output"),
                },
            ),
            names={"branches": ("items",), "current": ("branch",), "message": ("output",)},
            bare="branches",
            acknowledges=True,
        ),
        risk="write",
        approval=True,
        harmless={"action": frozenset({"list"})},
        refs=("name",),
        errors=_GIT,
        platforms=_SETUP,
        examples=(
            Example({"action": "create", "name": "feature/new-auth"}, {"success": True}),
            Example(
                {"action": "list"},
                {"current": "main", "branches": ["main", "feature/new-auth"]},
                note="Changes nothing, so it needs no approval by default.",
            ),
        ),
    ),
    Tool(
        name="git.commit",
        title="Commit: {message}",
        description="Commit the staged changes, or the given files.",
        parameters=arguments(
            {"message": string("The commit's message", minLength=1)},
            {"files": array(PATH, "Files to stage and commit; absent: the staged changes")},
        ),
        result=done(hash=string("The new commit's hash")),
        risk="write",
        approval=True,
        paths=("files",),
        operands=("files",),
        errors=(*_GIT, ErrorCode.FILE_NOT_FOUND, *_PLACES),
        platforms=_PATHS
        + " It passes the message with `-m`. Hooks run as they would for the user; a failing hook is a GIT_ERROR.",
        examples=(
            Example({"message": "Add authentication logging"}, {"success": True, "hash": "1234567"}),
            Example(
                {"message": "feat: add new feature", "files": ["src/main.dart"]},
                {"success": True, "hash": "abcdefg"},
            ),
        ),
    ),
)

NOT_OFFERED = (
    Tool(
        name="git.push",
        description="Send commits to a remote.",
        parameters=arguments({}, {"remote": string("The remote's name"), "branch": string("The branch")}),
        result=done(),
        risk="execute",
        approval=True,
        refs=("remote", "branch"),
        errors=_GIT,
        platforms=_SETUP,
    ),
)
