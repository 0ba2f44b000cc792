"""docs/parameters.md: every parameter of the template."""

from pathlib import Path
from typing import Any

from infra.docs.markdown import note, page_heading, table
from infra.sam_template import parse

_ABOUT = """\
The parameters of `make deploy PARAMETERS="Name=value …"`; see [deploy.md](deploy.md). A parameter that you do not give
keeps the stack's value, or gets its default in a new stack. A blank cell means an empty default.
"""


def page(template: Path) -> str:
    """The page. Raises ValueError for a parameter without a description."""
    declared = parse(template)["Parameters"]
    rows = [(f"`{name}`", _default(one), _meaning(name, one)) for name, one in declared.items()]
    head = ("parameter", "default", "what it does")
    return "\n".join([note("template.yaml"), page_heading("Parameters"), _ABOUT, *table(head, rows), ""])


def _default(parameter: dict[str, Any]) -> str:
    if "Default" not in parameter:
        return "required"
    return f"`{parameter['Default']}`" if parameter["Default"] != "" else ""


def _meaning(name: str, parameter: dict[str, Any]) -> str:
    if not parameter.get("Description"):
        raise ValueError(f"template.yaml: the parameter {name} has no Description")
    # The template writes " - " because YAML does not allow ": " in plain text.
    words = [parameter["Description"].rstrip(".").replace(" - ", ": ") + "."]
    if "AllowedValues" in parameter:
        words.append(f"One of {', '.join(f'`{value}`' for value in parameter['AllowedValues'])}.")
    if "MinValue" in parameter:
        least = f"{parameter['MinValue']:,}"
        words.append(f"From {least} to {parameter['MaxValue']:,}." if "MaxValue" in parameter else f"At least {least}.")
    return " ".join(words)
