"""An HTTP API that is described in OpenAPI, as SAM writes its own: the routes in `Body`, not in resources of their own.

API Gateway developer guide, "OpenAPI extensions for API Gateway". The emulator keeps the document and reads nothing of
it, so its references to functions are resolved here.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch"})
_ANY_METHOD = "x-amazon-apigateway-any-method"
_VARIABLE = re.compile(r"\$\{([^}!]+)\}")


class OpenApi:
    """The parts of an API, in the form that API Gateway's own listings have.

    identities: the physical ids of the stack's resources (of functions, their ARNs) by logical id.
    """

    def __init__(self, body: Mapping[str, Any], identities: Mapping[str, str]) -> None:
        self._identities = identities
        self.routes: list[dict[str, Any]] = []
        self.integrations: dict[str, dict[str, Any]] = {}
        self.authorizers = dict(self._read_authorizers(body))
        for path, operations in body.get("paths", {}).items():
            for method, operation in _branch(operations).items():
                if method in _METHODS or method == _ANY_METHOD:
                    self._add_route(path, method, _branch(operation), body.get("security") or [])

    def _read_authorizers(self, body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, scheme in ((body.get("components") or {}).get("securitySchemes") or {}).items():
            authorizer = scheme.get("x-amazon-apigateway-authorizer") or {}
            ttl = authorizer.get("authorizerResultTtlInSeconds")
            sources = authorizer.get("identitySource") or []
            if isinstance(sources, str):  # as the extension has it, with commas
                sources = [part.strip() for part in sources.split(",")]
            yield (
                name,
                {
                    **authorizer,
                    "name": name,
                    "authorizerType": str(authorizer.get("type", "")).upper(),
                    "authorizerUri": self._text(authorizer.get("authorizerUri")),
                    "identitySource": sources,
                    # One that refers to a parameter is not resolved: it counts as none.
                    "authorizerResultTtlInSeconds": 0 if isinstance(ttl, dict) else ttl,
                },
            )

    def _add_route(self, path: str, method: str, operation: Mapping[str, Any], default: list[Any]) -> None:
        key = path if path == "$default" else f"{'ANY' if method == _ANY_METHOD else method.upper()} {path}"
        integration = operation.get("x-amazon-apigateway-integration") or {}
        self.integrations[key] = {**integration, "integrationUri": self._text(integration.get("uri"))}
        route = {"routeKey": key, "target": f"integrations/{key}"}
        name = next((name for scheme in operation.get("security", default) for name in scheme), "")
        if name:
            kind = self.authorizers.get(name, {}).get("authorizerType")
            route |= {"authorizerId": name, "authorizationType": "CUSTOM" if kind == "REQUEST" else kind or name}
        self.routes.append(route)

    def _text(self, value: Any) -> str:
        """A text with references to resources: `Fn::Sub`, `Ref` or `Fn::GetAtt`."""
        match value:
            case {"Fn::Sub": [text, dict(names)]}:
                values = {name: self._text(inner) for name, inner in names.items()}
                return self._filled(text, values)
            case {"Fn::Sub": str(text)}:
                return self._filled(text, {})
            case {"Ref": name} | {"Fn::GetAtt": [name, *_]}:
                return self._identities.get(name, "")
            case str():
                return value
        return ""

    def _filled(self, text: str, values: Mapping[str, str]) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[1].removesuffix(".Arn")
            return values.get(match[1], self._identities.get(name, ""))

        return _VARIABLE.sub(fill, text)


def _branch(value: Any) -> dict[str, Any]:
    """Without the `Fn::If` that SAM writes around the operations of a function with a Condition.

    If the function is not there, its route leads to none.
    """
    if isinstance(value, dict) and "Fn::If" in value:
        value = value["Fn::If"][1]
    return value if isinstance(value, dict) else {}
