"""Resolves references: pointers, anchors, `$id` (and draft-04's `id`), dynamic and recursive references.

References to other documents are not resolved. The document is indexed when the first reference needs it: most schemas
have none.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

# The values of these keywords are data, not schemas.
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
_LEGACY_DRAFTS = ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")


def is_legacy(schema: Any) -> bool:
    """Whether a `$ref` hides its siblings, as in draft 7 and older."""
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    return isinstance(dialect, str) and any(draft in dialect for draft in _LEGACY_DRAFTS)


class References:
    """The references of one document."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._indexed = False
        self._has_ids: bool | None = None
        self._bases: dict[int, str] = {}  # of each schema inside a resource that is not the root
        self._resources: dict[str, Any] = {}  # absolute URI to resource
        self._resources_by_file_name: dict[str, Any] = {}  # the first resource of each file name
        self._anchors: dict[tuple[str, str], Any] = {}
        self._dynamic_anchors: dict[str, Any] = {}  # the outermost target of each dynamic anchor
        self._root = ""
        self._targets: dict[tuple[int, str], tuple[Any, Any]] = {}

    def target(self, holder: dict[str, Any], keyword: str = "$ref") -> Any:
        """The target of the reference in `holder`, or None if the document does not have it."""
        key = (id(holder), keyword)
        if key not in self._targets:
            self._targets[key] = (
                self._target(holder, keyword),
                holder,
            )  # keeps the holder alive, so that no other gets its id
        return self._targets[key][0]

    def _target(self, holder: dict[str, Any], keyword: str) -> Any:
        reference = holder[keyword]
        if not isinstance(reference, str):
            return None
        if self._has_ids is None:
            self._has_ids = _has_ids(self._document)
        if reference.startswith("#") and not self._has_ids:
            if reference in ("#", "#/"):
                return self._document
            if reference.startswith("#/"):
                return _walk(self._document, reference[2:])
        self._index()
        if keyword == "$recursiveRef":
            return self._dynamic_anchors.get("", self._resources.get(self._base(holder)))
        if keyword == "$dynamicRef" and reference.startswith("#") and reference[1:] in self._dynamic_anchors:
            return self._dynamic_anchors[reference[1:]]
        base, fragment = urldefrag(_join(self._base(holder), reference))
        resource = self._resources.get(base)
        if resource is None:
            # Many documents assume that they are stored elsewhere: try the name of the file.
            resource = self._resources_by_file_name.get(_tail(base))
            if resource is None:
                return None
        if not fragment or fragment == "/":
            return resource
        if fragment.startswith("/"):
            return _walk(resource, fragment[1:])
        return self._anchors.get((base, fragment)) or self._anchors.get((base, unquote(fragment)))

    def _base(self, holder: dict[str, Any]) -> str:
        return self._bases.get(id(holder), self._root)

    def _index(self) -> None:
        if self._indexed:
            return
        self._indexed = True
        document = self._document
        if isinstance(document, dict):
            self._root = _identifier(document) or ""
        self._resources[self._root] = document
        self._resources.setdefault("", document)
        stack: list[tuple[Any, str]] = [(document, self._root)]
        while stack:
            node, base = stack.pop()
            if isinstance(node, list):
                stack.extend((item, base) for item in reversed(node))
                continue
            if not isinstance(node, dict):
                continue
            identifier = _identifier(node)
            if identifier is not None and node is not document:
                if identifier.startswith("#"):  # an anchor in drafts 4 to 7
                    self._anchors.setdefault((base, identifier[1:]), node)
                else:
                    base = urldefrag(_join(base, identifier))[0]
                    self._resources.setdefault(base, node)
            if base != self._root:
                self._bases[id(node)] = base
            for keyword in ("$anchor", "$dynamicAnchor"):
                name = node.get(keyword)
                if isinstance(name, str):
                    self._anchors.setdefault((base, name), node)
                    if keyword == "$dynamicAnchor":
                        self._dynamic_anchors.setdefault(name, node)
            if node.get("$recursiveAnchor") is True:
                self._dynamic_anchors.setdefault("", node)
            stack.extend((value, base) for key, value in reversed(node.items()) if key not in _DATA)
        for uri, resource in self._resources.items():
            if uri:
                self._resources_by_file_name.setdefault(_tail(uri), resource)


def _identifier(node: dict[str, Any]) -> str | None:
    for keyword in ("$id", "id"):
        value = node.get(keyword)
        if isinstance(value, str) and value:
            return urldefrag(value)[0] if value.endswith("#") else value
    return None


def _has_ids(document: Any) -> bool:
    """Whether a subschema has a base URI of its own, which changes the meaning of `#` inside it."""
    stack = [document]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if node is not document and (isinstance(node.get("$id"), str) or isinstance(node.get("id"), str)):
                return True
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return False


def _join(base: str, reference: str) -> str:
    try:
        uri = urljoin(base, reference)
    except ValueError:
        return reference
    if uri == reference and reference.startswith("#"):
        return base + reference  # urljoin does not support urn: and other schemes
    return uri


def _tail(uri: str) -> str:
    return uri.rstrip("/").rsplit("/", 1)[-1].removesuffix(".json")


def _walk(node: Any, pointer: str) -> Any:
    for part in pointer.split("/"):
        for name in (part.replace("~1", "/").replace("~0", "~"), unquote(part).replace("~1", "/").replace("~0", "~")):
            if isinstance(node, dict) and name in node:
                node = node[name]
                break
            if isinstance(node, list) and name.isdigit() and int(name) < len(node):
                node = node[int(name)]
                break
        else:
            return None
    return node if isinstance(node, (dict, bool)) else None
