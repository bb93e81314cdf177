"""The budgets of the folders, and the table of long files, are of what is there."""

from tests.support.budget import BUDGETS, DEFAULT, HERE, WHOLE
from tests.support.order import ROOT, recorded

FOLDERS = {path.relative_to(HERE).parts[0] for path in HERE.glob("*/**/test_*.py")} | {"."}


def test_the_budgets_of_all_folders_keep_to_that_of_the_suite() -> None:
    assert sum(BUDGETS.get(folder, DEFAULT) for folder in FOLDERS) <= WHOLE
    assert set(BUDGETS) <= FOLDERS


def test_the_long_files_exist() -> None:
    assert all((ROOT / file).is_file() for file in recorded())
