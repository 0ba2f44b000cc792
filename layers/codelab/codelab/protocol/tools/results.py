"""The results of tools: what each is expected to look like, and how what IDEs send instead is read.

A result is checked loosely where it enters: more fields than expected are kept, other names of a field are read, a bare
value stands for the one field that matters. What still makes no sense is taken as it is, for the IDE has done what it
was asked to do and the model may make sense of it: a result is never lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jsonschema_rs


@dataclass(frozen=True)
class ResultForm:
    """The expected form of a result or of a part of one.

    `schema` is its JSON Schema. `names` are other names that are read, by the name that is expected. `bare` is the
    property that a value which is no object stands for, `acknowledges` says that nothing at all means success.
    `parts` are the forms of the entries of its lists, by property.
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
        """Does `result` have the expected form?"""
        return self._validator.is_valid(result)

    def normal(self, result: Any) -> Any:
        """`result` in the expected form if it can be brought into it, else as it is."""
        found = self._renamed(result)
        return found if self.fits(found) else result

    def _renamed(self, result: Any) -> Any:
        if not isinstance(result, dict):
            if self.acknowledges and (result is None or isinstance(result, bool)):
                return {"success": result is not False}
            return {self.bare: self._part(self.bare, result)} if self.bare and result is not None else result
        found = dict(result)
        for name, others in self.names.items():
            for other in others:
                if name not in found and other in found:
                    found[name] = found.pop(other)
        return {name: self._part(name, value) for name, value in found.items()}

    def _part(self, name: str, value: Any) -> Any:
        form = self.parts.get(name)
        return [form._renamed(item) for item in value] if form is not None and isinstance(value, list) else value
