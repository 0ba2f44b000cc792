"""Runs programs under Linux's Landlock and seccomp, which need no privileges: the program restricts itself.

Landlock restricts files. It does not restrict sockets with a name in the file system, by which a program could ask a
service manager or a container engine to act in its place, nor UDP; so a seccomp filter forbids to create sockets.
Bubblewrap uses the same filter for what its namespaces do not keep apart (`seccomp_filter`).

This file is also the launcher: `python landlock.py RULES PROGRAM ...` gives up all other rights and becomes PROGRAM.
It imports only the standard library, because it runs without the package.
"""

import ctypes
import errno
import json
import os
import stat
import struct
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from codelab_client.sandbox.access import Access, Launch

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # On every architecture.
_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
#: The rights to files: execute, read files, read directories; and all of a version. See linux/landlock.h.
_READ = 1 << 0 | 1 << 2 | 1 << 3
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_TCP = 1 << 0 | 1 << 1
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
#: Of each architecture: its number for seccomp (linux/audit.h), and its system calls `socket`, `ioctl` and those of
#: keyrings: `add_key`, `request_key`, `keyctl`.
_ARCHITECTURES = {"x86_64": (0xC000003E, 41, 16, (248, 249, 250)), "aarch64": (0xC00000B7, 198, 29, (217, 218, 219))}
_IO_URING_SETUP = 425  # On every architecture. By io_uring, a program creates sockets without calling `socket`.
_X32 = 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
#: Families of sockets (linux/socket.h), and the only protocol of the last one: interfaces and routes.
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
#: Of classic BPF: load a word; jump if equal, if greater or equal; return.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
#: Where the filter finds the architecture, the call's number, and the low words of its arguments (linux/seccomp.h).
_AT_ARCHITECTURE, _AT_NUMBER, _AT_ARGUMENT = 4, 0, (16, 24, 32)
_SCOPES = 1 << 0 | 1 << 1
#: Older versions cannot forbid to truncate files.
_OLDEST = 3
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("instructions", ctypes.c_char_p))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("directory", ctypes.c_int32))


class Landlock:
    """Runs programs under Landlock. Raises OSError or RuntimeError if the kernel lacks it, or has too old a version.

    It has one temporary directory for its programs, which is removed with it.
    """

    name = "landlock"

    def __init__(self) -> None:
        from codelab_client.sandbox.access import Guarantees

        version = _version()
        if version < _OLDEST:
            raise RuntimeError(f"the kernel has version {version} of Landlock; {_OLDEST} is needed")
        if not has_seccomp_filter():
            raise RuntimeError(f"there is no seccomp filter for {os.uname().machine}")
        self.guarantees = Guarantees(writes_only_there=True, home_hidden=True, no_network=True)
        self._temporary = tempfile.TemporaryDirectory(prefix="codelab-tmp-")

    def launch(self, argv: "Sequence[str]", access: "Access", cwd: "Path") -> "Launch":
        """How to start `argv`: this file becomes it. What is protected is not."""
        from codelab_client.sandbox.access import Launch

        temporary = os.path.realpath(self._temporary.name)
        rules = {
            "read": [*map(str, access.readable)],
            "write": [*map(str, access.writable), temporary],
            "network": access.network,
        }
        start = (sys.executable, "-I", "-S", __file__, json.dumps(rules))
        return Launch((*start, *argv), env={"TMPDIR": temporary}, cwd=cwd)


def _call(number: int, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "landlock")
    return result


def _version() -> int:
    if sys.platform != "linux":
        raise RuntimeError("only Linux has Landlock")
    return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))


def restrict(rules: dict[str, Any]) -> None:
    """Give up every right to files and TCP that the rules do not name, for this process and all that it starts."""
    version = _version()
    all_rights = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    new_ruleset = _Ruleset(all_rights)
    if version >= 4 and not rules["network"]:
        new_ruleset.network = _TCP
    if version >= 6:
        new_ruleset.scoped = _SCOPES
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _call(_CREATE_RULESET, ctypes.byref(new_ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    resolvers = _RESOLVERS if rules["network"] else ()
    for path in (*_SYSTEM, "/proc", *resolvers, *rules["read"]):
        _allow(ruleset, path, _READ)
    for path in (*_DEVICES, *rules["write"]):
        _allow(ruleset, path, all_rights)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)
    _filter_calls((AF_INET, AF_INET6, AF_NETLINK) if rules["network"] else ())


_Instruction = tuple[int, int, int, int]
_REFUSE: _Instruction = (_RETURN, 0, 0, _ERROR | errno.EACCES)
_PASS: _Instruction = (_RETURN, 0, 0, _ALLOW)


def has_seccomp_filter() -> bool:
    """Whether the system calls of this architecture are known."""
    return os.uname().machine in _ARCHITECTURES


def seccomp_filter(families: "Sequence[int]") -> bytes:
    """A filter of system calls for the kernel: an array of `struct sock_filter` (linux/filter.h).

    Programs create sockets of these families only; pairs of connected ones (`socketpair`) stay allowed. They reach none
    of the kernel's keyrings, which belong to the user's session and no namespace, and type into no terminal. Refused,
    because it would evade the filter, are io_uring and the system calls of other architectures, programs of 32 bits.
    """
    machine, socket, ioctl, keys = _ARCHITECTURES[os.uname().machine]
    by_family = [line for family in families for line in _if(family, _family(family))]
    return b"".join(
        struct.pack("=HBBI", *line)
        for line in (
            (_LOAD, 0, 0, _AT_ARCHITECTURE),
            (_EQUAL, 1, 0, machine),
            _REFUSE,
            (_LOAD, 0, 0, _AT_NUMBER),
            (_AT_LEAST, 0, 1, _X32),
            _REFUSE,
            *(line for number in (_IO_URING_SETUP, *keys) for line in _if(number, [_REFUSE])),
            *_if(socket, [(_LOAD, 0, 0, _AT_ARGUMENT[0]), *by_family, _REFUSE]),
            *_if(
                ioctl,
                [(_LOAD, 0, 0, _AT_ARGUMENT[1]), *_if(_TIOCSTI, [_REFUSE]), *_if(_TIOCLINUX, [_REFUSE]), _PASS],
            ),
            _PASS,
        )
    )


def _if(value: int, then: "Sequence[_Instruction]") -> "list[_Instruction]":
    """Instructions that run if the loaded word is this value, else are jumped over."""
    return [(_EQUAL, 0, len(then), value), *then]


def _family(family: int) -> "list[_Instruction]":
    if family != AF_NETLINK:
        return [_PASS]
    return [(_LOAD, 0, 0, _AT_ARGUMENT[2]), *_if(_NETLINK_ROUTE, [_PASS]), _REFUSE]


def _filter_calls(families: "Sequence[int]") -> None:
    """Put the filter on this process and all that it starts."""
    instructions = seccomp_filter(families)
    program = _Program(len(instructions) // 8, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = _Beneath(rights, descriptor)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    restrict(json.loads(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
