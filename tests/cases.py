"""A table of cases as one test: pytest spends milliseconds on each test, which is more than a pure function takes."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def cases(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but as one test, which runs all cases and then names those that failed.

    The cases share the test's other fixtures, so none may change what the next one sees.
    """
    named = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    listed = list(values)
    assert listed, "there is no case"
    assert not any(hasattr(value, "marks") for value in listed), "a mark is of a test, not of a case"
    rows = [dict(zip(named, value if len(named) > 1 else [value], strict=True)) for value in listed]
    labels = [_label(row, ids) for row in rows] if ids is None or callable(ids) else list(map(str, ids))

    def decorate(test: Test) -> Test:
        parameters = inspect.signature(test).parameters
        assert set(named) <= parameters.keys(), f"{test.__name__} does not take {named}"
        assert not inspect.iscoroutinefunction(test), "nobody would await it"

        @wraps(test)
        def all_cases(**fixtures: Any) -> None:
            errors: list[BaseException] = []
            for row, label in zip(rows, labels, strict=True):
                try:
                    test(**fixtures, **row)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"Case: {label}")
                    errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(rows)} cases failed", errors)

        others = [parameter for name, parameter in parameters.items() if name not in named]
        all_cases.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return all_cases

    return decorate


def _label(row: dict[str, Any], text: Callable[[Any], object] | None) -> str:
    return ", ".join(f"{name}={(text or repr)(value)}" for name, value in row.items())
