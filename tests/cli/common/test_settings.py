"""The settings of a box from the command line."""

from sluice.cli.common.running import settings_of
from sluice.cli.main import parser


def test_each_option_reaches_its_setting() -> None:
    given = [
        "--memory",
        "1000000",
        "--hold",
        "70000",
        "--max-instances",
        "3000",
        "--idle",
        "4",
        "--seed",
        "5",
        "--prefault",
    ]
    options = parser().parse_args(["flows", "-r", "a.pcap", *given, "--fragment-timeout", "6"])
    settings = settings_of(options, timeouts=True)
    assert (settings.memory, settings.hold, settings.max_instances) == (1_000_000, 70_000, 3000)
    assert (settings.idle, settings.seed, settings.prefault, settings.lifetime) == (4, 5, True, 6)
    assert settings.store is None and settings.state_file is None and settings.timeouts
