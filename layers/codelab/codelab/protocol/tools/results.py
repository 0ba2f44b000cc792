"""The expected results of tools, and how to normalize what IDEs send instead.

Extra fields are kept, other names of a field are accepted, and a bare value stands for the most important field. A
result that still does not match is passed on unchanged: the IDE executed the call, and the model may understand it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jsonschema_rs


@dataclass(frozen=True)
class ResultForm:
    """The expected form of a result or of a part of one.

    `schema` is its JSON Schema. `names` maps an expected name to other accepted names. `bare`: a value that is
    not an object is read as this property. `acknowledges`: null means success. `parts` are the forms of list entries,
    by property.
    """

    schema: dict[str, Any] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bare: str = ""
    acknowledges: bool = False
    parts: Mapping[str, "ResultForm"] = field(default_factory=dict)

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(self.schema)

    def fits(self, result: Any) -> bool:
        """Is `result` valid for the schema?"""
        return self._validator.is_valid(result)

    def normal(self, result: Any) -> Any:
        """`result` in the expected form if it can be converted, else unchanged."""
        candidate = self._renamed(result)
        return candidate if self.fits(candidate) else result

    def _renamed(self, result: Any) -> Any:
        if not isinstance(result, dict):
            if self.acknowledges and (result is None or isinstance(result, bool)):
                return {"success": result is not False}
            return {self.bare: self._part(self.bare, result)} if self.bare and result is not None else result
        fields = dict(result)
        for name, aliases in self.names.items():
            for alias in aliases:
                if name not in fields and alias in fields:
                    fields[name] = fields.pop(alias)
        return {name: self._part(name, value) for name, value in fields.items()}

    def _part(self, name: str, value: Any) -> Any:
        form = self.parts.get(name)
        return [form._renamed(item) for item in value] if form is not None and isinstance(value, list) else value
