"""What users import is documented, and refuses at their line whoever calls it."""

from __future__ import annotations

import inspect

import pytest

import sluice.lang
from sluice.lang import Bit, Connectionless, ConnectionOriented, DescriptionError, layout
from sluice.lang.parser import SETTINGS, Parser
from sluice.lang.where import here, user_function


@pytest.mark.parametrize("name", sluice.lang.__all__)
def test_everything_that_users_import_is_documented(name: str) -> None:
    thing = getattr(sluice.lang, name)
    assert len(vars(thing).get("__doc__") or thing.__doc__ or "") > 40, name


@pytest.mark.parametrize("parser", [Connectionless, ConnectionOriented])
def test_every_setting_is_documented(parser: type[Parser]) -> None:
    for name in SETTINGS:
        found = inspect.getattr_static(parser, name, None)
        if isinstance(found, property):
            assert found.__doc__, name
        else:
            assert f"{name}:" in (inspect.getdoc(parser.__mro__[1]) or ""), name


def test_every_name_that_is_exported_is_there_and_no_other() -> None:
    public = {
        name for name, value in vars(sluice.lang).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public == set(sluice.lang.__all__)


class small(layout):
    kind = Bit(8)


def a_function_of_the_user() -> Connectionless:
    p = Connectionless()
    p.header = small
    return p


def test_the_line_is_the_users_however_deep_the_language_was() -> None:
    p = a_function_of_the_user()
    with pytest.raises(DescriptionError) as caught:
        p.sdu = p.payload[: p.header.kynd]
    error = caught.value
    lines, first = inspect.getsourcelines(test_the_line_is_the_users_however_deep_the_language_was)
    assert lines[error.where.line - first].strip() == "p.sdu = p.payload[: p.header.kynd]"
    assert error.where.file == __file__ and error.where.short == f"test_reference.py:{error.where.line}"
    assert p.name == "a_function_of_the_user" and p.where.line == a_function_of_the_user.__code__.co_firstlineno + 1


def test_the_language_does_not_count_as_the_user_and_what_is_called_alike_does() -> None:
    source = "def made_parser():\n    return here(), user_function()\n"
    names: dict[str, object] = {"here": here, "user_function": user_function}
    beside = sluice.lang.__path__[0] + "uage/mine.py"
    exec(compile(source, beside, "exec"), names)
    where, function = names["made_parser"]()  # type: ignore[operator]
    assert (where.file, where.line, function) == (beside, 2, "made_parser")
