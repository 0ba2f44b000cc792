"""How the fields of a class are stored as attributes of an item: one description for both directions."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import cached_property
from itertools import compress
from operator import attrgetter, ne
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

#: A function from a field's value to the stored one, and its inverse.
Form = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class Layout(Generic[T]):
    """Stores each field of the dataclass `kind` as an attribute.

    names: fields whose attributes have other names.
    forms: fields that are stored in another form.
    optional: fields that are not stored while they are empty or zero.
    elsewhere: fields that are not stored here.
    spread: fields that are dicts of which each entry is an attribute `{prefix}#{key}`, so that it can be changed on its
    own: by the field's name the prefix, the type of the keys, and the layout of an entry.
    """

    def __init__(
        self,
        kind: Callable[..., T],
        *,
        names: Mapping[str, str] = {},
        forms: Mapping[str, Form] = {},
        optional: Collection[str] = (),
        elsewhere: Collection[str] = (),
        spread: Mapping[str, tuple[str, Callable[[str], Any], "Layout[Any]"]] = {},
    ) -> None:
        self._kind = kind
        self._columns: list[tuple[str, str, bool, Callable[[Any], Any] | None]] = []
        #: By attribute: the names of the fields that are stored as they are, and of those in another form.
        self._plain: dict[str, str] = {}
        self._parsers: dict[str, tuple[str, Callable[[Any], Any]]] = {}
        self._spread_writers = [(name, prefix, layout) for name, (prefix, _, layout) in spread.items()]
        self._spread_fields = {prefix: (name, key_of, layout) for name, (prefix, key_of, layout) in spread.items()}
        field_names = [kind_field.name for kind_field in fields(cast(Any, kind))]
        for name in [name for name in field_names if name not in elsewhere and name not in spread]:
            attribute, (write, parse) = names.get(name, name), forms.get(name, (None, None))
            self._columns.append((name, attribute, name in optional, write))
            if parse is None:
                self._plain[attribute] = name
            else:
                self._parsers[attribute] = (name, parse)
        assert len(self._columns) > 1, "of a single name, attrgetter returns no tuple"

    @cached_property
    def _values(self) -> Callable[[T], tuple[Any, ...]]:
        """The values of the fields that are attributes (two or more), all at once."""
        return attrgetter(*(name for name, *_ in self._columns))

    def write(self, entry: T) -> dict[str, Any]:
        """The attributes of `entry`."""
        attributes: dict[str, Any] = {}
        for (_, attribute, is_optional, write), value in zip(self._columns, self._values(entry), strict=True):
            if value or not is_optional:
                attributes[attribute] = value if write is None else write(value)
        for name, prefix, layout in self._spread_writers:
            for key, inner in getattr(entry, name).items():
                attributes[f"{prefix}#{key}"] = layout.write(inner)
        return attributes

    def changes(self, old: T | None, new: T) -> tuple[dict[str, Any], list[str]]:
        """The attributes of `new` that `old` has not, or with other values, and the names of those that only `old` has.

        `old` is None if nothing is stored yet.
        """
        if old is None:
            return self.write(new), []
        new_values: dict[str, Any] = {}
        removed_names: list[str] = []
        olds, news = self._values(old), self._values(new)
        for (_, attribute, is_optional, write), before, after in compress(
            zip(self._columns, olds, news, strict=True), map(ne, olds, news)
        ):
            if after or not is_optional:
                new_values[attribute] = after if write is None else write(after)
            elif before:
                removed_names.append(attribute)
        for name, prefix, layout in self._spread_writers:
            old_entries, new_entries = getattr(old, name), getattr(new, name)
            new_values |= {
                f"{prefix}#{key}": layout.write(entry)
                for key, entry in new_entries.items()
                if key not in old_entries or layout._values(old_entries[key]) != layout._values(entry)
            }
            removed_names += [f"{prefix}#{key}" for key in old_entries if key not in new_entries]
        return new_values, removed_names

    def read(self, item: Mapping[str, Any], **values: Any) -> T:
        """The entry with these attributes and the field `values`; other fields have their defaults.

        Other attributes are ignored: a newer version of this code may have written more, while both are deployed.
        """
        # Every event reads dozens of fields, most of them stored as they are: no step of Python's for each.
        plain = self._plain.keys() & item.keys()
        values.update(zip(map(self._plain.__getitem__, plain), map(item.__getitem__, plain), strict=True))
        for attribute in self._parsers.keys() & item.keys():
            name, parse = self._parsers[attribute]
            values[name] = parse(item[attribute])
        for attribute in [name for name in item if "#" in name] if self._spread_fields else ():
            prefix, _, key = attribute.partition("#")
            if (spread_field := self._spread_fields.get(prefix)) is not None:
                name, key_of, layout = spread_field
                values.setdefault(name, {})[key_of(key)] = layout.read(item[attribute])
        return self._kind(**values)

    @property
    def as_map(self) -> Form:
        """The form of a field that is a dict of entries."""
        return (
            lambda entries: {key: self.write(entry) for key, entry in entries.items()},
            lambda items: {key: self.read(item) for key, item in items.items()},
        )
