"""Tools that run programs (Tools Specification, "Command Execution"; Agent Protocol, "run_command")."""

from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import arguments, done, reply, string
from codelab.protocol.tools.tool import Example, Tool

_COMMAND = string("The command line", minLength=1)
_CWD = string("Working directory relative to the workspace; absent: the workspace")
_PROCESS = string("The name by which the process is known afterwards", minLength=1, maxLength=128)
_SHELL = "The IDE's shell runs it: sh on Linux and macOS, PowerShell or cmd on Windows."
_NO_SHELL = " An IDE without processes, in a browser for example, answers TOOL_NOT_FOUND."

TOOLS = (
    Tool(
        name="run_command",
        description="Run a shell command in the workspace and wait for its end; not for a server or the like.",
        parameters=arguments({"command": _COMMAND}, {"cwd": _CWD}),
        result=ResultForm(
            reply(
                {},
                {
                    "stdout": string("What it wrote to its output"),
                    "stderr": string("What it wrote to its error output"),
                    "exit_code": {
                        "type": ["integer", "null"],
                        "description": "Null while it runs: then this is a piece of output and the call stays open",
                    },
                    "signal": {"type": ["string", "integer", "null"], "description": "The signal that ended it"},
                },
            )
            | {"anyOf": [{"required": ["stdout"]}, {"required": ["stderr"]}, {"required": ["exit_code"]}]},
            names={
                "stdout": ("output",),
                "exit_code": ("exitCode", "exit_status", "returncode", "return_code", "code"),
            },
            bare="stdout",
        ),
        risk="execute",
        approval=True,
        always_approval=True,
        streams=True,
        paths=("cwd",),
        errors=(ErrorCode.EXECUTION_FAILED, ErrorCode.PERMISSION_DENIED, ErrorCode.PATH_OUTSIDE_WORKSPACE),
        platforms=_SHELL + " A command that ends with an exit code other than 0 is a result, not an error." + _NO_SHELL,
        examples=(
            Example(
                {"command": "npm install", "cwd": "."},
                {"stdout": "added 1 package\n", "stderr": "", "exit_code": 0},
            ),
            Example(
                {"command": "flutter test", "cwd": "project/path"},
                {"stdout": "Running tests...\n", "stderr": "", "exit_code": None},
                note="A piece of output: the exit code is null, the call stays open until it is a number.",
            ),
        ),
    ),
    Tool(
        name="run_persistent",
        description="Start a process that runs on, such as a development server. Returns once it has started.",
        parameters=arguments({"command": _COMMAND, "process_id": _PROCESS}, {"cwd": _CWD}),
        result=ResultForm(
            reply(
                {},
                {
                    "success": {"type": "boolean", "description": "Whether it was started"},
                    "process_id": string("The name it was given"),
                    "status": string("running, or how it has ended already"),
                    "stdout": string("What it has written so far"),
                    "stderr": string("What it has written to its error output so far"),
                },
            ),
            names={"stdout": ("output",)},
            bare="stdout",
            acknowledges=True,
        ),
        risk="execute",
        approval=True,
        always_approval=True,
        paths=("cwd",),
        errors=(ErrorCode.EXECUTION_FAILED, ErrorCode.PERMISSION_DENIED, ErrorCode.PATH_OUTSIDE_WORKSPACE),
        platforms=_SHELL + " A second process of the same name is EXECUTION_FAILED." + _NO_SHELL,
        examples=(
            Example(
                {"command": "npm run dev", "process_id": "dev_server"},
                {"process_id": "dev_server", "status": "running", "stdout": "listening on 5173\n"},
            ),
        ),
    ),
    Tool(
        name="kill_process",
        description="Stop a process that was started by run_persistent.",
        parameters=arguments({"process_id": _PROCESS}),
        result=done(exit_code={"type": ["integer", "null"], "description": "How it ended, where that is known"}),
        risk="execute",
        approval=True,
        errors=(ErrorCode.EXECUTION_FAILED, ErrorCode.PERMISSION_DENIED),
        platforms="With its children, where the platform knows them." + _NO_SHELL,
        examples=(Example({"process_id": "dev_server"}, {"success": True}),),
    ),
)
