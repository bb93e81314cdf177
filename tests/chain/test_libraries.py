"""Functions of a chain that use the same library, whose headers declare types and functions for all of them."""

from __future__ import annotations

from pathlib import Path

from sluice.chain.description import Arrangement, function
from sluice.chain.file_scope import separated
from sluice.hooks.includes import with_own_includes
from tests.chain.running import checked, run
from tests.functions.logs.boxes import connection, needs_parsers
from tests.functions.logs.test_cuts import HTTP
from tests.support.unoptimised import unoptimised

LIBRARY = """#ifndef LIBRARY_H
#define LIBRARY_H
typedef struct library_s { int used; } library_t;
typedef int (*library_call)(library_t *);
void library_open(library_t *library);
#endif
"""
SHARED = """#ifndef SHARED_H
#define SHARED_H
#include "../library/library.h"
SLUICE_SOURCE("../library/library.c")
typedef int library_step(library_t *library);
extern library_step library__first, library__second;
static int shared(library_t *library) { library_open(library); return library__first(library); }
#endif
"""


def test_names_of_a_library_are_the_same_in_all_functions(tmp_path: Path) -> None:
    for folder in ("own", "library"):
        (tmp_path / folder).mkdir()
    (tmp_path / "library" / "library.h").write_text(LIBRARY)
    (tmp_path / "own" / "shared.h").write_text(SHARED)
    paths = {name: str(tmp_path / "own" / f"{name}.c") for name in ("one", "two")}
    for path in paths.values():
        Path(path).write_text('#include "shared.h"\nint helper(void) { return 1; }\n')
    texts = {name: with_own_includes(Path(path).read_text(), path) for name, path in paths.items()}
    out = separated(texts, paths)
    for name, text in out.items():
        assert LIBRARY.rstrip() in text
        assert f"typedef int library_step__{name}(library_t *library);" in text
        assert f"extern library_step__{name} library__first, library__second;" in text
        assert f"static int shared__{name}(library_t *library) {{ library_open(library);" in text
        assert f"#ifndef SHARED_H__{name}" in text and f"int helper__{name}(void)" in text


@needs_parsers
def test_logs_that_parse_http_in_one_chain(tmp_path: Path) -> None:
    packets = tuple(connection(HTTP))

    def rows(*names: str) -> list[str]:
        one, *others = (function(name, out=str(tmp_path / name)) for name in names)
        arrangement: Arrangement = one
        for other in others:
            arrangement = arrangement >> other
        with unoptimised():
            run(checked(arrangement), tmp_path / "left", packets)
        return [(tmp_path / name).read_text() for name in names]

    http, files = rows("httplog", "filelog")
    assert (http.count("\n"), files.count("\n")) == (4, 4)
    assert [http, files] == [*rows("httplog"), *rows("filelog")]
