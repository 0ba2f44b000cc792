"""Tools that run programs (Tools Specification, "Command Execution"; Agent Protocol, "run_command")."""

from codelab.protocol.errors import ErrorCode
from codelab.protocol.tools.results import ResultForm
from codelab.protocol.tools.schema import arguments, done, reply, string
from codelab.protocol.tools.tool import Example, Tool

_COMMAND = string("The command line", minLength=1)
_CWD = string("Working directory relative to the workspace; absent: the workspace")
_PROCESS = string("A name for the process, used to refer to it later", minLength=1, maxLength=128)
_SHELL = "The IDE's shell runs it: sh on Linux and macOS, PowerShell or cmd on Windows."
_NO_SHELL = " An IDE that cannot start processes, such as one in a browser, answers TOOL_NOT_FOUND."

TOOLS = (
    Tool(
        name="run_command",
        kind="execute",
        title="Run {command}[ in {cwd}]",
        description="Run a shell command in the workspace and wait for its end; not for servers and the like.",
        parameters=arguments({"command": _COMMAND}, {"cwd": _CWD}),
        result=ResultForm(
            reply(
                {},
                {
                    "stdout": string("Its standard output"),
                    "stderr": string("Its standard error"),
                    "exit_code": {
                        "type": ["integer", "null"],
                        "description": "Null while it runs: this is a piece of output and the call stays open",
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
        platforms=_SHELL + " An exit code other than 0 is a result, not an error." + _NO_SHELL,
        examples=(
            Example(
                {"command": "npm install", "cwd": "."},
                {"stdout": "added 1 package\n", "stderr": "", "exit_code": 0},
            ),
            Example(
                {"command": "flutter test", "cwd": "project/path"},
                {"stdout": "Running tests...\n", "stderr": "", "exit_code": None},
                note="A piece of output: the call stays open while the exit code is null.",
            ),
        ),
    ),
    Tool(
        name="run_persistent",
        kind="execute",
        title="Start {process_id}: {command}[ in {cwd}]",
        description="Start a long-running process, such as a development server. Returns once it has started.",
        parameters=arguments({"command": _COMMAND, "process_id": _PROCESS}, {"cwd": _CWD}),
        result=ResultForm(
            reply(
                {},
                {
                    "success": {"type": "boolean", "description": "Whether it was started"},
                    "process_id": string("The process's name"),
                    "status": string("running, or how it has already ended"),
                    "stdout": string("Its standard output so far"),
                    "stderr": string("Its standard error so far"),
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
        platforms=_SHELL + " A name that is in use is EXECUTION_FAILED." + _NO_SHELL,
        examples=(
            Example(
                {"command": "npm run dev", "process_id": "dev_server"},
                {"process_id": "dev_server", "status": "running", "stdout": "listening on 5173\n"},
            ),
        ),
    ),
    Tool(
        name="read_process",
        kind="read",
        title="Read the output of {process_id}",
        description="Read what a process that was started by run_persistent has written, and whether it still runs.",
        parameters=arguments({"process_id": _PROCESS}),
        extension=True,
        result=ResultForm(
            reply(
                {"process_id": string("The process's name"), "status": string("running, or how it has ended")},
                {
                    "stdout": string("Its standard output: the beginning and the end of a long one"),
                    "stderr": string("Its standard error, likewise"),
                    "exit_code": {"type": ["integer", "null"], "description": "Its exit code, null while it runs"},
                },
            )
        ),
        errors=(ErrorCode.EXECUTION_FAILED,),
        platforms="A process that was stopped by kill_process is unknown: EXECUTION_FAILED." + _NO_SHELL,
        examples=(
            Example(
                {"process_id": "dev_server"},
                {"process_id": "dev_server", "status": "running", "stdout": "GET / 200\n", "exit_code": None},
            ),
        ),
    ),
    Tool(
        name="kill_process",
        kind="execute",
        title="Stop {process_id}",
        description="Stop a process that was started by run_persistent.",
        parameters=arguments({"process_id": _PROCESS}),
        result=done(exit_code={"type": ["integer", "null"], "description": "Its exit code, if known"}),
        risk="execute",
        approval=True,
        errors=(ErrorCode.EXECUTION_FAILED, ErrorCode.PERMISSION_DENIED),
        platforms="Also stops its child processes, where the platform can find them." + _NO_SHELL,
        examples=(Example({"process_id": "dev_server"}, {"success": True}),),
    ),
)
