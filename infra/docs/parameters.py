"""docs/parameters.md: every parameter of the template."""

from pathlib import Path
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from infra.docs.markdown import note, table

_ABOUT = """\
What `make deploy PARAMETERS="Name=value …"` can set; [deploy.md](deploy.md) says how. A parameter that you do
not give keeps the value that the stack has; in a new stack it gets its default. Where the default's cell is blank, the
default is an empty text.
"""


def page(template: Path) -> str:
    """The page. Raises ValueError for a parameter that does not say what it is."""
    declared = yaml_parse(template.read_text(encoding="utf-8"))["Parameters"]
    rows = [(f"`{name}`", _default(one), _meaning(name, one)) for name, one in declared.items()]
    head = ("parameter", "default", "what it does")
    return "\n".join([note("template.yaml"), "# Parameters\n", _ABOUT, *table(head, rows), ""])


def _default(parameter: dict[str, Any]) -> str:
    if "Default" not in parameter:
        return "must be given"
    return f"`{parameter['Default']}`" if parameter["Default"] != "" else ""


def _meaning(name: str, parameter: dict[str, Any]) -> str:
    if not parameter.get("Description"):
        raise ValueError(f"template.yaml: the parameter {name} has no Description")
    # In the template a colon would end the text.
    words = [parameter["Description"].rstrip(".").replace(" - ", ": ") + "."]
    if "AllowedValues" in parameter:
        words.append(f"One of {', '.join(f'`{value}`' for value in parameter['AllowedValues'])}.")
    if "MinValue" in parameter:
        least = f"{parameter['MinValue']:,}"
        words.append(f"From {least} to {parameter['MaxValue']:,}." if "MaxValue" in parameter else f"At least {least}.")
    return " ".join(words)
