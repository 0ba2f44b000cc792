"""clients/typescript/src/protected.ts: the files that other programs obey, for the TypeScript client."""

import json

from codelab.protocol.protected import PROTECTED, PROTECTED_FILES

_MODULE = """\
// Written by `make docs` from the server's codelab.protocol.protected; do not edit.

/** Names anywhere in a path, and only at its end, of files that other programs obey. `*` is any part of a name. */
const ANYWHERE = {anywhere};
const AT_THE_END = {at_the_end};
"""


def module() -> str:
    """The module's text: the names from the server's table, and what is compared with them."""
    anywhere, at_the_end = (json.dumps(" ".join(names), ensure_ascii=False) for names in (PROTECTED, PROTECTED_FILES))
    return _MODULE.format(anywhere=anywhere, at_the_end=at_the_end) + _CODE


_CODE = r"""
let pattern: RegExp | undefined;

/** Could a change of this file or directory make a program run code? */
export function isProtected(path: string): boolean {
  const names = namesOf(path);
  pattern ??= new RegExp(`(?:^|/)(?:(?:${anyOf(ANYWHERE)})(?:/|$)|(?:${anyOf(AT_THE_END)})$)`);
  return names.some((name) => /^[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{1,3})?$/.test(name)) || pattern.test(names.join("/"));
}

/** Could this be a directory with such files in it? A name with an extension counts as a file. */
export function mayHoldProtected(path: string): boolean {
  const last = namesOf(path).at(-1);
  return last === undefined || /[/\\]$/.test(path) || !last.replace(/^\.+|\.+$/g, "").includes(".");
}

/** The names in a path as the most tolerant file system compares them: no case, accents, trailing dots or spaces. */
function namesOf(path: string): string[] {
  const plain = path.replace(/[\u200c\u200d\ufe0e\ufe0f]/g, "").normalize("NFKD").replace(/\p{M}/gu, "");
  const folded = plain.toUpperCase().toLowerCase().normalize("NFKD");
  return folded.split(/[/\\]/).map((name) => name.replace(/[. \t]+$/, "")).filter(Boolean);
}

function anyOf(names: string): string {
  const escaped = names.toLowerCase().replace(/[\\^$.|+?()[\]{}]/g, "\\$&").replaceAll("*", "[^/]*");
  return escaped.replaceAll(" ", "|");
}
"""
