"""A library is compiled anew when what it includes changed, and only then."""

from pathlib import Path

from sluice.codegen.stack import generate
from sluice.engine import compiler as engine
from sluice.engine.includes import Files, included
from sluice.hooks.function import Functions
from sluice.lower.build import build
from sluice.stacks.find import find_stack


def test_headers_are_followed_and_found_beside_the_file_first(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "core" / "a.h").write_text('#include "b.h"\n  #  include "core/c.h"\n#include <stdio.h>\n')
    (tmp_path / "core" / "b.h").write_text('#include "core/a.h"\n')
    (tmp_path / "core" / "c.h").write_text('#if 0\n#include "missing.h"\n#endif\n')
    (tmp_path / "b.h").write_text("")
    found = included([(b'#include "core/a.h"\n', None)], [tmp_path], Files())
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["core/a.h", "core/b.h", "core/c.h"]


def test_a_header_that_a_stack_does_not_include_is_not_part_of_its_digest() -> None:
    generated = generate(build(find_stack("tcp_ip")), Functions())
    sources = [(generated.source.encode(), None)]
    names = {path.name for path in included(sources, engine.INCLUDE_FOLDERS, Files())}
    assert (
        {"sluice.h", "table.h", "sequence.h"} <= names and "digest.h" not in names and "sequence_units.h" not in names
    )
