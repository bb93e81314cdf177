"""Each transfer function of the analyses is needed: a test fails without it."""

from __future__ import annotations

import pytest

from sluice.analyze.toolchain import SOURCES
from tests.analyze.removals import Removal, build, fails, files_of, is_missed, read_removals

REMOVALS = read_removals()


def test_each_place_is_there_once() -> None:
    assert len({one.name for one in REMOVALS}) == len(REMOVALS)
    for one in REMOVALS:
        one.place_in((SOURCES / one.file).read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return build(REMOVALS, tmp_path_factory.mktemp("removals"))


@pytest.mark.slow_matrix(whole=True)
@pytest.mark.timeout(1800)  # the first one builds the tool
@pytest.mark.parametrize("file", files_of(REMOVALS))
def test_all_tests_pass_if_nothing_is_removed(file: str, environment: dict[str, str]) -> None:
    assert not fails("", [file], environment)


@pytest.mark.slow_matrix(whole=True)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("removal", REMOVALS, ids=lambda one: one.name)
def test_a_test_fails_without_it(removal: Removal, environment: dict[str, str]) -> None:
    assert is_missed(removal, environment)
