"""A real word count of Hadoop: map outputs that the service has merged are read by Hadoop's own reader."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from examples.hadoop.run import HERE, compare, write_input

JARS = os.environ.get("SLUICE_HADOOP_JARS", "")
"""A folder with Hadoop's jars; without it Maven copies them."""


@pytest.mark.slow_matrix
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")
@pytest.mark.skipif(not JARS and shutil.which("mvn") is None, reason="there is neither SLUICE_HADOOP_JARS nor Maven")
def test_the_words_of_a_job_are_those_of_the_service(tmp_path: Path) -> None:
    jars = Path(JARS) if JARS else tmp_path / "jars"
    if not JARS:
        command = [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(HERE / "pom.xml"),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"Maven cannot copy Hadoop's jars: {done.stdout[-300:]}")
    work = tmp_path / "work"
    work.mkdir()
    write_input(work / "input", 3, 1000)
    words, total = compare(jars, work)
    assert words > 1000 and total == 3 * 1000 * 10
