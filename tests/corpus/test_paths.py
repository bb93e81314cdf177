"""Every layer that packets pass, against the truth: each is entered as often as the truth's paths name it.

The truth gives the path of each frame, from the link to the innermost layer that it knows; the layers of `everything`
count packets. A frame of a datagram in fragments counts for the layers that it passes itself, the last one also for
those that the whole datagram passes: in both.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.corpus.boxes import flow_stack, flows_of
from tests.support.corpus import SHARED, corpus, truth

pytestmark = pytest.mark.corpus

STACK = "everything"
SAME = (
    "eth vlan llc snap sll sll2 null chdlc fr radiotap ppp pppoe lcp pap chap ipcp ipv6cp ccp arp mpls ah esp icmp"
    " icmp6 igmp tcp udp gre gtp vxlan geneve l2tp teredo erspan erspan3"
)
OTHER_NAMES = {
    "ip": ("ipv4",),
    "ip6": ("ipv6",),
    "hbh": ("ext",),
    "rt": ("ext",),
    "dst": ("ext",),
    "ah": ("ah", "ah6"),
    "gre1": ("gre",),
    "pppoed": ("pppoe",),
    "wlan": ("wlan", "wlan_padded"),
    "vxlangpe": ("vxlan_gpe",),
}
LAYERS: dict[str, tuple[str, ...]] = {name: (name,) for name in SAME.split()} | OTHER_NAMES
"""Layers of the stack for each layer of the truth. Fragments are compared in test_truth.py, datagram by datagram."""

OTHERWISE = {
    ("AlexeyVasilev_PcapFlowLab__24_gtpu_flag_matrix_inner_ipv4_tcp.pcap", "gtp"): "GTP' ends in the layer, malformed",
    ("OISF_suricata-verify__ipv6-evasion-ipv6-malformed-fragments-11-frag-11.pcap", "icmp6"): "behind 127 fragments",
    ("aircrack-ng_aircrack-ng__wpa2-psk-linksys.pcap", "null"): "802.11's frames without data, no loopback",
}
"""Where both count differently, and why."""


def parts() -> list[tuple[str, ...]]:
    return sorted(set(LAYERS.values()))


@pytest.mark.parametrize("name", list(truth()))
def test_layers(name: str) -> None:
    wanted: Counter[tuple[str, ...]] = Counter()
    for path, frames in truth()[name]["paths"].items():
        for part in path.split(":"):
            wanted[LAYERS.get(part, ())] += frames
    counters = flows_of(STACK, name).outcome.counters
    entered: Counter[str] = Counter()
    for variant, layer in flow_stack(STACK).program.layers.items():
        entered[layer.layer] += counters[variant]["packets"]
    # Each indication of Teredo is looked at from the start; the truth counts them as one.
    entered["teredo"] -= entered["teredo_authentication"] + entered["teredo_origin"]
    found = {layers: sum(entered[layer] for layer in layers) for layers in parts()}
    different = {layers for layers in parts() if found[layers] != wanted[layers]}
    assert {(name, layer) for layers in different for layer in layers} == {
        key for key in OTHERWISE if key[0] == name
    }, [(layers, wanted[layers], found[layers]) for layers in different]


def test_the_layers_are_in_the_corpus() -> None:
    """What is compared is there: a name that no path has would compare nothing."""
    if corpus() != SHARED:
        pytest.skip("only the whole corpus has them all")
    there = {part for entry in truth().values() for path in entry["paths"] for part in path.split(":")}
    assert LAYERS.keys() <= there
