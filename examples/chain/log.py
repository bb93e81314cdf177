"""Prints what the other functions publish."""

from sluice.functions import on


@on("chain", "blocked")
def refused(event):
    print(f"packet {event.packet}: {event.src} may not reach port {event.port} of {event.dst}")


@on("chain", "web")
def request(event):
    print(f"packet {event.packet}: {event.src} sends a request: {event.method.decode()}")


@on("chain", "alert")
def attack(event):
    print(f"packet {event.packet}: {event.src} attacks {event.dst}, at byte {event.offset} of its stream")
