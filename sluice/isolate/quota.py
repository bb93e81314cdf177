"""The CPU limit of a cgroup: `cpu.max` of v2, `cpu.cfs_quota_us` and its period of v1."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from sluice.isolate.errors import IsolateError

OUR_PERIOD = 1_000_000
"""The longest period that the kernel accepts, in us: between two writes it refills as little as possible. A limit that
was taken over is recognised by it.
"""
_SMALLEST = 1000
_GONE = (errno.ENOENT, errno.ENODEV)


class GoneError(Exception):
    """The cgroup has been removed."""


@dataclass(frozen=True)
class Limit:
    """A limit: so many microseconds of CPU time in each period."""

    quota_us: int
    period_us: int
    burst_us: int = 0

    @property
    def cpus(self) -> float:
        """The limit as a number of CPUs."""
        return self.quota_us / self.period_us


class Quota:
    """The files of one cgroup. Raises IsolateError if it has no cpu controller, GoneError if it is removed."""

    def __init__(self, folder: Path, is_v1: bool) -> None:
        self.folder = folder
        self.is_v1 = is_v1
        self._files: dict[str, int] = {}
        self._written: tuple[int, int] | None = None
        self._identifier = self._identifier_now()
        try:
            self.read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def read(self) -> Limit | None:
        """The limit that the cgroup has now; None if it has none."""
        now = self._now()
        if now is None:
            return None
        return Limit(*now, int(self._get("cpu.cfs_burst_us" if self.is_v1 else "cpu.max.burst", "0")))

    def _now(self) -> tuple[int, int] | None:
        if self.is_v1:
            quota, period = self._get("cpu.cfs_quota_us"), self._get("cpu.cfs_period_us")
        else:
            quota, period = self._get("cpu.max").split()
        return None if quota in ("-1", "max") else (int(quota), int(period))

    def take_over(self, slice_us: int) -> None:
        """Replace the limit by a slice for a long period, which refill() repeats. Raises IsolateError if the kernel
        refuses.
        """
        self._set_burst(0)
        if self.is_v1:  # first the period: the limit must not exceed that of a parent at any time
            self._put("cpu.cfs_period_us", str(OUR_PERIOD))
        self.refill(slice_us)

    def refill(self, slice_us: int) -> None:
        """Let the cgroup run for so long from now, whatever it has run before."""
        slice_us = max(slice_us, _SMALLEST)
        if self.is_v1:
            self._put("cpu.cfs_quota_us", str(slice_us))
        else:
            self._put("cpu.max", f"{slice_us} {OUR_PERIOD}")
        self._written = (slice_us, OUR_PERIOD)

    def is_as_written(self) -> bool:
        """Whether the limit is what take_over() or refill() wrote."""
        return self._now() == self._written

    def set_by_others(self, ordinary: Limit) -> Limit | None:
        """The limit as others have set it, None if they removed it.

        ordinary: the limit before take_over(). A new quota without a new period is for the ordinary period. A quota of
        ours with the ordinary period is no change: the watchdog had restored the limit just before it was written.
        """
        now = self._now()
        if now is None:
            return None
        quota, period = now
        if self._written is not None:
            if period == OUR_PERIOD:
                period = ordinary.period_us
            elif quota == self._written[0] and period == ordinary.period_us:
                return ordinary
        return Limit(quota, period, ordinary.burst_us)

    def lift(self, ordinary: Limit) -> None:
        """Another program removed the limit: nothing of take_over() remains."""
        if self.is_v1:
            self._put("cpu.cfs_period_us", str(ordinary.period_us))
        else:
            self._put("cpu.max", f"max {ordinary.period_us}")
        self._written = None

    def restore(self, limit: Limit) -> None:
        """Set a limit as it was before take_over(). The period is last: until then, a limit that is restored in part
        is recognised by ours. The quota within our period does not exceed the limit, nor that of a parent.
        """
        if self.is_v1 or limit.burst_us:
            self.refill(limit.quota_us)
        self._set_burst(limit.burst_us)
        if self.is_v1:
            self._put("cpu.cfs_period_us", str(limit.period_us))
        else:
            self._put("cpu.max", f"{limit.quota_us} {limit.period_us}")
        self._written = None

    def throttled(self) -> int:
        """Nanoseconds for which the kernel has throttled its tasks."""
        for line in self._get("cpu.stat", "").splitlines():
            name, _, value = line.partition(" ")
            if name in ("throttled_time", "throttled_usec"):
                return int(value) * (1 if name == "throttled_time" else 1000)
        return 0

    def _set_burst(self, burst_us: int) -> None:
        name = "cpu.cfs_burst_us" if self.is_v1 else "cpu.max.burst"
        if self._get(name, "0") != str(burst_us):
            self._put(name, str(burst_us))

    def _open(self, name: str) -> int:
        if name not in self._files:
            flags = os.O_RDONLY if name == "cpu.stat" else os.O_RDWR
            self._files[name] = os.open(self.folder / name, flags | os.O_CLOEXEC)
        return self._files[name]

    def _get(self, name: str, default: str | None = None) -> str:
        try:
            return os.pread(self._open(name), 4096, 0).decode().strip()
        except OSError as error:
            if default is not None:
                return default
            raise self._failed(name, error) from error

    def _put(self, name: str, text: str) -> None:
        try:
            os.pwrite(self._open(name), text.encode(), 0)
        except OSError as error:
            raise self._failed(name, error) from error

    def _identifier_now(self) -> int | None:
        with contextlib.suppress(OSError):
            return self.folder.stat().st_ino
        return None

    def _is_gone(self) -> bool:
        """A container that is started again has the path of the removed one."""
        now = self._identifier_now()
        return now is None or now != self._identifier

    def _failed(self, name: str, error: OSError) -> Exception:
        if error.errno in _GONE and self._is_gone():
            return GoneError(str(self.folder))
        if error.errno == errno.ENOENT:
            return IsolateError(f"{self.folder} has no {name}: the cpu controller is not enabled there")
        if error.errno == errno.EINVAL:
            return IsolateError(
                f"{self.folder / name}: the kernel refuses the value; a cgroup above or below has a limit of its own"
            )
        with contextlib.suppress(KeyError):
            os.close(self._files.pop(name))
        return IsolateError(f"{self.folder / name}: {os.strerror(error.errno or 0)}")
