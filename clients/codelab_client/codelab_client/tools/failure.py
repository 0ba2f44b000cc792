"""Why a call failed, as an exception."""

import errno
from typing import Literal

#: The codes of docs/errors.md that this executor uses.
Code = Literal[
    "CANCELLED",
    "ENCODING_ERROR",
    "EXECUTION_FAILED",
    "FILE_NOT_FOUND",
    "FILE_TOO_LARGE",
    "GIT_ERROR",
    "GIT_NOT_INITIALIZED",
    "INVALID_ARGUMENTS",
    "INVALID_PATH",
    "PATCH_APPLY_FAILED",
    "PATH_OUTSIDE_WORKSPACE",
    "PERMISSION_DENIED",
    "TIMEOUT",
    "TOOL_NOT_FOUND",
]

_OF_ERRNO: dict[int, Code] = {
    errno.ENOENT: "FILE_NOT_FOUND",
    errno.ENOTDIR: "FILE_NOT_FOUND",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "PERMISSION_DENIED",
    errno.ELOOP: "PERMISSION_DENIED",
    errno.ENAMETOOLONG: "INVALID_PATH",
    errno.EILSEQ: "INVALID_PATH",
}


class ToolFailure(Exception):
    """A call failed. code: the protocol's. message: for the model, without names from outside the workspace."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Changed(ToolFailure):
    """A file is not what a call was to change. Nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__("PATCH_APPLY_FAILED", message)


def of_os_error(error: OSError, path: str) -> ToolFailure:
    """The failure for an error of the operating system about `path`."""
    reason = error.strerror or type(error).__name__
    return ToolFailure(_OF_ERRNO.get(error.errno or 0, "EXECUTION_FAILED"), f"{path}: {reason}")
