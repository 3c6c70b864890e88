"""known_hosts: what its lines say about a key. Hashed names are in test_connect.py."""

from __future__ import annotations

import base64
import struct

import pytest

from ipexctl.machines.ssh.known_hosts import (
    KnownHosts,
    lookup_names,
    names_match,
    parse_known_hosts,
)


def blob(name: str, key_type: str = "ssh-ed25519") -> bytes:
    """Made like a key: texts with their lengths, the first the type."""
    parts = key_type.encode(), b"key " + name.encode()
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def text_of(name: str, key_type: str = "ssh-ed25519") -> str:
    return base64.b64encode(blob(name, key_type)).decode()


A, B, C = map(text_of, "ABC")
RSA, DSS = text_of("B", "ssh-rsa"), text_of("A", "ssh-dss")
BLOB_A, BLOB_B = blob("A"), blob("B")


def judge(text, host="node1", key_type="ssh-ed25519", blob=BLOB_A, port=22, alias=""):
    known = KnownHosts(parse_known_hosts(text, "kh"))
    verdict = known.judge(lookup_names(host, port, alias), key_type, blob)
    return verdict.standing.value, [e.place.line for e in verdict.lines]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ("unknown", [])),
        (f"node1 ssh-ed25519 {A}", ("known", [1])),
        (f"node1 ssh-ed25519 {A} a comment\n", ("known", [1])),
        (f"  NODE1\tssh-ed25519 {A}\r\n", ("known", [1])),
        (f"other,node1 ssh-ed25519 {A}", ("known", [1])),
        (f"node* ssh-ed25519 {A}", ("known", [1])),
        (f"node? ssh-ed25519 {A}", ("known", [1])),
        (f"*,!node1 ssh-ed25519 {A}", ("unknown", [])),
        (f"!node2,* ssh-ed25519 {A}", ("known", [1])),
        (f"node1,!node2,* ssh-ed25519 {A}", ("known", [1])),
        (f"node2,!node1,* ssh-ed25519 {A}", ("unknown", [])),
        (f"[node1]:22 ssh-ed25519 {A}", ("unknown", [])),
        (f"# c\nnode1 ssh-ed25519 {B}", ("changed", [2])),
        (f"node1 ssh-rsa {RSA}", ("changed", [1])),
        (f"node1 ssh-rsa {RSA}\nnode1 ssh-ed25519 {C}", ("changed", [2])),
        (f"node1 ssh-rsa {RSA}\nnode1 ssh-ed25519 {A}", ("known", [2])),
        (f"node1 ssh-ed25519 {C}\nnode1 ssh-ed25519 {A}", ("known", [2])),
        (f"@revoked * ssh-ed25519 {A}\nnode1 ssh-ed25519 {A}", ("revoked", [1])),
        (f"node1 ssh-ed25519 {A}\n@revoked node1 ssh-ed25519 {A}", ("revoked", [2])),
        (f"@revoked node1 ssh-ed25519 {B}\nnode1 ssh-ed25519 {A}", ("known", [2])),
        (f"@revoked node1 ssh-ed25519 {B}", ("unknown", [])),
        (f"@cert-authority * ssh-ed25519 {B}", ("unknown", [])),
        (f"@cert-authority * ssh-ed25519 {B}\nnode1 ssh-ed25519 {A}", ("known", [2])),
        (f"@nonsense node1 ssh-ed25519 {A}", ("unknown", [])),
        ("node1 ssh-ed25519", ("unknown", [])),
        ("node1 ssh-ed25519 not!base64", ("unknown", [])),
        (f"node1 ssh-ed25519 {A[:-8]}\nnode1 ssh-ed25519 {A}", ("known", [2])),
        (f"|1|bad|bad ssh-ed25519 {A}\n\x00\x00\nnode1 ssh-ed25519 {A}", ("known", [3])),
    ],
)
def test_the_lines_decide(text, said):
    assert judge(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[node1]:2222 ssh-ed25519 {A}", ("known", [1])),
        (f"[node1]:2222 ssh-ed25519 {B}", ("changed", [1])),
        (f"node1 ssh-ed25519 {A}", ("known", [1])),  # as OpenSSH: the bare name may vouch
        (f"node1 ssh-ed25519 {B}", ("unknown", [])),  # but not accuse: it is another sshd
        (f"[node1]:2222 ssh-ed25519 {B}\nnode1 ssh-ed25519 {A}", ("changed", [1])),
        (f"[node1]:2222 ssh-ed25519 {A}\n@revoked node1 ssh-ed25519 {A}", ("revoked", [2])),
    ],
)
def test_another_port_is_another_host_that_the_bare_name_may_vouch_for(text, said):
    assert judge(text, port=2222) == said


def test_the_types_on_record_are_told_in_order():
    text = f"node1 ssh-rsa {RSA}\n@revoked node1 ssh-dss {DSS}\nnode* ssh-ed25519 {B}\n"
    known = KnownHosts(parse_known_hosts(text, "kh"))
    assert known.types(("node1",)) == ("ssh-rsa", "ssh-ed25519")


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*a" * 20 + "b", "a" * 60, False),
        ("*a" * 20, "a" * 60, True),
        ("*" * 200 + "?", "", False),
        ("n*[1]?", "node[1]2", True),
        ("[!1]*", "2", False),
        ("*]", "[a]", True),
        ("?*.x", ".x", False),
    ],
)
def test_many_stars_take_no_longer_than_one(pattern, name, fits):
    assert names_match((pattern,), name) is fits
