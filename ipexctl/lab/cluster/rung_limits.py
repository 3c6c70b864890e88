"""How real a practice cluster can be on this machine, and what each rung leaves out. Pure."""

from __future__ import annotations

from dataclasses import replace

from ipexctl.errors import InputError
from ipexctl.lab.cluster.lab_spec import WORDS, HostSpec, LabSpec

FULL, USER, FLAT = RUNGS = ("full", "user", "flat")

SENTENCES = {
    FULL: "network namespaces, created by root",
    USER: "user namespaces, which need no root",
    FLAT: "sshd processes on loopback addresses of this machine, without namespaces",
}

# What a host of the flat rung cannot have: field -> word of the command line.
_FLAT_HOST = {**WORDS, "covers": "covers"}


def check_rung(word: str) -> None:
    if word and word not in RUNGS:
        raise InputError(
            f"unknown rung '{word}'", hint=f"use one of: {', '.join(RUNGS)}", slug="unknown-value"
        )


def fit_spec_to_rung(spec: LabSpec, rung: str) -> tuple[LabSpec, tuple[str, ...]]:
    """Return what of `spec` the rung can simulate, and words for what it leaves out."""
    if rung != FLAT:
        return spec, ()
    if spec.flat:
        raise InputError(
            "the flat rung has no --flat lab",
            hint=f"start {min(spec.flat, 8)} hosts with -n",
            slug="options-conflict",
        )
    plain, left_out = HostSpec(), list[str]()
    for host in spec.hosts:
        words = [word for f, word in _FLAT_HOST.items() if getattr(host, f) != getattr(plain, f)]
        left_out += [f"{host.name}:{','.join(words)}"] if words else []
    left_out += ["--ipv6"] if spec.ipv6 else []
    hosts = tuple(HostSpec(name=host.name) for host in spec.hosts)
    return replace(spec, hosts=hosts, ipv6=False), tuple(left_out)


def nsenter_command(pid: int, *options: str) -> list[str]:
    """Return the prefix of a command that runs it as root of the host with this process 1."""
    return ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", *options, "--"]


def as_user(rung: str, uid: int) -> list[str]:
    """Return the prefix of a command that runs it from a host's root as the host's account."""
    if rung != USER:
        return []
    return ["unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", "--"]
