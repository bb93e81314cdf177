"""What the process of an isolated function may not do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.chain.description import function
from sluice.chain.processes.controller import Controller
from sluice.chain.processes.limits import FIRST_USER
from sluice.engine.box import RunError
from tests.chain.functions import Put
from tests.chain.running import checked, run_isolated, talk

FIRST = "SLUICE_ON(tcp, packet) { (void)event; }"
TRIES = """
#include <fcntl.h>
#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <sys/socket.h>
SLUICE_COUNTER(user, "of the process")
SLUICE_COUNTER(packets, "of TCP")
SLUICE_COUNTER(opened, "files")
SLUICE_COUNTER(connected, "sockets")
SLUICE_COUNTER(killed, "processes")
SLUICE_COUNTER(signalled, "threads")
SLUICE_COUNTER(controlled, "devices")
SLUICE_COUNTER(pipes, "but that of the result")
SLUICE_COUNTER(forked, "processes")
SLUICE_COUNTER(unlocked, "pages of packets that can be written")
SLUICE_COUNTER(allocated, "bytes")
SLUICE_ON(tcp, packet) {
    struct sl_box *box = event->box;
    if (SLUICE_COUNTER_OF(box, packets)++)
        return;
    void *page = (void *)((uintptr_t)sl_packet_frame(event)->at & ~(uintptr_t)4095);
    SLUICE_COUNTER_OF(box, user) = getuid();
    SLUICE_COUNTER_OF(box, opened) = open("/etc/passwd", O_RDONLY) >= 0;
    SLUICE_COUNTER_OF(box, connected) = socket(AF_INET, SOCK_STREAM, 0) >= 0;
    SLUICE_COUNTER_OF(box, killed) = kill(getppid(), SIGKILL) == 0;
    SLUICE_COUNTER_OF(box, signalled) = syscall(SYS_tgkill, getppid(), getppid(), 0) == 0;
    errno = 0;
    SLUICE_COUNTER_OF(box, controlled) = ioctl(0, TIOCGWINSZ, &box) == 0 || errno != EPERM;
    for (int file = 3; file < 1024; file++) {
        struct stat found;
        SLUICE_COUNTER_OF(box, pipes) += fstat(file, &found) == 0 && S_ISFIFO(found.st_mode);
    }
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    SLUICE_COUNTER_OF(box, forked) = child > 0;
    SLUICE_COUNTER_OF(box, unlocked) = mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0;
    void *much = malloc((size_t)1 << 30);
    SLUICE_COUNTER_OF(box, allocated) = much != NULL;
    free(much);
}
"""


def test_a_function_has_a_user_of_its_own_and_may_do_little(put: Put, tmp_path: Path) -> None:
    one = function(put("first.c", FIRST)) | function(put("tries.c", TRIES)).isolated(memory=512 << 20)
    controllers: list[Controller] = []
    reports = run_isolated(checked(one), tmp_path / "out.pcap", controller=controllers.append).reports
    missing = controllers[0].processes[1].missing
    if any("system calls" in text for text in missing):
        pytest.skip(f"not limited: {', '.join(missing)}")
    assert reports["tries.packets"] == len(talk())
    for name in ("opened", "connected", "killed", "signalled", "controlled", "forked", "unlocked", "allocated"):
        assert reports[f"tries.{name}"] == 0, name
    assert reports["tries.pipes"] == 1  # for its result
    if os.geteuid() == 0 and not missing:
        assert reports["tries.user"] == FIRST_USER + 1


def test_a_function_that_refuses_to_open_ends_the_run_with_its_reason(put: Put, tmp_path: Path) -> None:
    refuses = "SLUICE_OPEN { return 1; }\nSLUICE_ON(tcp, packet) { (void)event; }"
    with pytest.raises(RunError, match="a function refused"):
        run_isolated(checked(function(put("no.c", refuses)) >> function(put("tries.c", TRIES))), tmp_path / "out.pcap")
