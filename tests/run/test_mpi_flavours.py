"""What each MPI is told, what it may ask our agents for, and how it is recognised: pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipexctl.common.env_answers import HostMpi
from ipexctl.errors import RunFailed
from ipexctl.facts.mpi_install_facts import Mpi
from ipexctl.remote.hub import mpi_launch
from ipexctl.run.plan.launch import LaunchPlan, PlannedHost, RunRequest
from ipexctl.run.plan.launch_plan import make_launch_plan
from ipexctl.run.plan.mpirun import RANK, rank_starter_command
from ipexctl.stack import mpi
from tests.made import facts, host, prepared
from tests.plan.asked import read_launch

P = "/home/trainer/.ipexctl/envs/abc"
OTHER = "/data/trainer/.ipexctl/envs/abc"


def node(name: str, found: Mpi | None, *, prefix: str = P, nic: str = "eth0") -> PlannedHost:
    address = f"10.0.0.{name[-1]}"
    made = replace(prepared(prefix), mpi=found and replace(found, bin=f"{prefix}/bin"))
    return PlannedHost(host(name), facts(name, address=address, nic=nic), made)


def planned(found: Mpi | None) -> LaunchPlan:
    nodes = [node("node01", found), node("node02", found, prefix=OTHER, nic="ens5")]
    return make_launch_plan(nodes, RunRequest(("train.py",), 3), "r1")


IMPI = Mpi("intel", "2021.18.1", "")
MPICH = Mpi("mpich", "5.0.2", "")
OMPI = Mpi("openmpi", "5.0.11", "")
OMPI_4 = Mpi("openmpi", "4.1.8", "")
RUN = "/home/trainer/.ipexctl/runs/r1"


@pytest.mark.parametrize(
    ("found", "flags", "machinefile"),
    [
        (
            IMPI,
            f"-genvnone -bootstrap ssh -bootstrap-exec {RUN}/bootstrap -iface eth0 "
            f"-machinefile {RUN}/hosts -n 3",
            "node01:2\nnode02:1\n",
        ),
        (
            MPICH,
            f"-genvnone -launcher ssh -launcher-exec {RUN}/bootstrap -iface eth0 -wdir / "
            f"-f {RUN}/hosts -n 3",
            "node01:2\nnode02:1\n",
        ),
        (
            OMPI,
            "--allow-run-as-root --leave-session-attached --prtemca plm ssh "
            f"--prtemca plm_ssh_agent {RUN}/bootstrap --prtemca plm_ssh_no_tree_spawn 1 "
            f"--hostfile {RUN}/hosts -n 3 --bind-to none --wdir /",
            "0-host slots=2\n1-host slots=1\n",
        ),
        (
            OMPI_4,
            "--allow-run-as-root --leave-session-attached --mca plm rsh "
            f"--mca plm_rsh_agent {RUN}/bootstrap --mca plm_rsh_no_tree_spawn 1 "
            f"--hostfile {RUN}/hosts -n 3 --bind-to none --wdir /",
            "0-host slots=2\n1-host slots=1\n",
        ),
    ],
)
def test_each_mpi_is_told_of_our_bootstrap_program(found, flags, machinefile):
    made = planned(found)
    assert made.mpirun == (f"{P}/bin/mpirun", *flags.split(), *RANK)
    assert made.machinefile == machinefile


def test_without_mpi_each_hosts_agent_starts_its_ranks():
    made = planned(None)
    assert (made.mpi, made.mpirun, made.machinefile) == ("", (), "")
    assert [rank_starter_command(h)[3:] for h in made.hosts] == [
        ("sh", "0:0", "1:1"),
        ("sh", "2:0"),
    ]


def test_each_host_has_its_own_interface_in_open_mpis_settings():
    seen = [{k: v for k, v in h.env if "MCA" in k} for h in planned(OMPI).hosts]
    assert seen == [
        {"PRTE_MCA_prte_if_include": nic, "OMPI_MCA_btl_tcp_if_include": nic}
        for nic in ("eth0", "ens5")
    ]


def test_hosts_with_different_mpis_are_refused():
    nodes = [node("node01", OMPI), node("node02", MPICH), node("node03", None)]
    with pytest.raises(RunFailed) as caught:
        make_launch_plan(nodes, RunRequest(("train.py",), 3), "r1")
    assert caught.value.why == "node01: Open MPI 5.0.11; node02: MPICH 5.0.2; node03: none"


def on_ipv6(found: Mpi | None, *, ipv4_too: bool = False) -> LaunchPlan:
    nodes = []
    for name in ("node01", "node02"):
        made = node(name, found)
        address = f"fd00::{name[-1]}"
        own = (address, "10.0.0.1") if ipv4_too else (address,)
        nics = tuple(replace(n, addresses=own) for n in made.facts.net.nics)
        net = replace(made.facts.net, ssh_address=address, nics=nics)
        nodes.append(replace(made, facts=replace(made.facts, net=net)))
    return make_launch_plan(nodes, RunRequest(("train.py",), 2), "r1")


def test_without_ipv4_intel_mpi_is_told_and_mpich_is_not_used():
    assert on_ipv6(IMPI).mpirun[1] == "-v6"
    assert on_ipv6(OMPI).mpirun == on_ipv6(OMPI, ipv4_too=True).mpirun
    mpich = on_ipv6(MPICH)
    assert (mpich.mpi, mpich.mpirun) == ("", ())
    assert [n for n in mpich.notes if n.startswith("MPICH needs IPv4")]
    assert on_ipv6(None).notes == on_ipv6(IMPI).notes
    assert on_ipv6(IMPI).master.startswith("[fd00::1]:")


def test_where_the_interface_has_ipv4_too_mpi_uses_that():
    assert on_ipv6(IMPI, ipv4_too=True).mpirun[1] == "-genvnone"
    assert on_ipv6(MPICH, ipv4_too=True).mpi == "mpich"


# --- what mpirun asks for, as recorded ------------------------------------------------------------

# Intel MPI 2021.18
FROM_INTEL = (
    "-q", "-x", "node02", f"{P}/bin//hydra_bstrap_proxy", "--upstream-host", "10.0.0.1", "--pgid",
    "0", "--base-path", f"{P}/bin/", "--tree-width", "16", f"{P}/bin//hydra_pmi_proxy", "--usize",
    "-1",
)  # fmt: skip
# MPICH 5.0.2 quotes the program: it expects a shell at the other end
FROM_MPICH = (
    "-x", "node02", f'"{P}/bin/hydra_pmi_proxy"', "--control-port", "10.0.0.1:46003", "--rmk",
    "user", "--launcher-exec", f"{RUN}/bootstrap", "--iface", "eth0", "--pgid", "0", "--proxy-id",
    "1",
)  # fmt: skip
FROM_OPENMPI = (
    "1-host",
    f"PRTE_PREFIX={P};export PRTE_PREFIX;PMIX_PREFIX={P};export PMIX_PREFIX;"
    f"LD_LIBRARY_PATH={P}/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;{P}/bin/prted",
    "--leave-session-attached", "--prtemca", "ess", '"env"', "--prtemca", "prte_hnp_uri",
    '"prterun-node01-7@0.0;tcp://10.0.0.1:50101:24"', "--prtemca", "prte_if_include", '"eth0"',
    "--prtemca", "plm_ssh_agent", f'"{RUN}/bootstrap"',
)  # fmt: skip
# a login shell that is /bin/sh makes it read .profile, in a subshell
FROM_OPENMPI_SH = (
    "1-host", "(", "test", "!", "-r", "./.profile", "||", ".", "./.profile;", *FROM_OPENMPI[1:5],
    ")",
)  # fmt: skip
FROM_OPENMPI_4 = ("1-host", " orted", "-mca", "ess", '"env"', "-mca", "oob_tcp_if_include", "eth0")


@pytest.mark.parametrize(
    ("found", "argv", "expected"),
    [
        (
            IMPI,
            FROM_INTEL,
            f"hydra_bstrap_proxy --upstream-host 10.0.0.1 --pgid 0 --base-path {OTHER}/bin/ "
            f"--tree-width 16 {OTHER}/bin//hydra_pmi_proxy --usize -1",
        ),
        (
            MPICH,
            FROM_MPICH,
            f"hydra_pmi_proxy --control-port 10.0.0.1:46003 --rmk user --launcher-exec "
            f"{RUN}/bootstrap --iface ens5 --pgid 0 --proxy-id 1",
        ),
        (
            OMPI,
            FROM_OPENMPI,
            "prted --leave-session-attached --prtemca ess env --prtemca prte_hnp_uri "
            "prterun-node01-7@0.0;tcp://10.0.0.1:50101:24 --prtemca plm_ssh_agent /bin/sh",
        ),
        (OMPI, FROM_OPENMPI_SH, "prted --leave-session-attached --prtemca ess"),
        (OMPI_4, FROM_OPENMPI_4, "orted -mca ess env"),
    ],
)
def test_a_daemon_is_started_by_its_words_with_its_own_hosts_settings(found, argv, expected):
    program, *rest = expected.split()
    asked = read_launch(planned(found), argv)
    assert asked == ("node02", (f"{OTHER}/bin/{program}", *rest))


@pytest.mark.parametrize(
    ("found", "argv", "words"),
    [
        (IMPI, ("-q", "-x", "evil", *FROM_INTEL[3:]), "not in this run: evil"),
        (IMPI, ("-q", "-x", "node02", "/tmp/hydra_bstrap_proxy"), "not its daemon"),
        (IMPI, (), "not a launch"),
        (OMPI, ("1-host", f"{P}/bin/prted", '"'), "not a launch: No closing quotation"),
        (OMPI, ("1-host", "/tmp/prted"), "not its daemon: /tmp/prted"),
        (OMPI, ("9-host", f"{P}/bin/prted"), "not in this run: 9-host"),
        (OMPI, ("1-host", f"{P}/bin/hydra_pmi_proxy"), "not its daemon"),
        (MPICH, ("-x", "node02", "id;", f"{P}/bin/hydra_pmi_proxy"), "not its daemon: id;"),
        (MPICH, ("-x", "node02", "hydra_pmi_proxy"), "not its daemon"),
        (MPICH, ("-x", "node02", ""), "not its daemon"),
        (None, ("-x", "node02", f"{P}/bin/hydra_pmi_proxy"), "this run has no mpirun"),
    ],
)
def test_nothing_but_the_daemon_of_this_runs_mpi_is_started(found, argv, words):
    with pytest.raises(mpi_launch.NotOfThisRun, match=words):
        read_launch(planned(found), argv)


# --- which one it is -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101", "intel"),
        ("HYDRA build details:\n    Version:                  5.0.2\n    CC:  cc", "mpich"),
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to", "openmpi"),
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to", "openmpi4"),
        ("mpirun (Open MPI) 10.0", "openmpi"),
        ("mpirun: some other program 1.0", ""),
        ("", ""),
    ],
)
def test_a_hosts_own_mpi_is_known_by_what_it_says(said, row):
    assert mpi.row_of(mpi.recognise_mpi(HostMpi("/usr/bin", said))) == row


@pytest.mark.parametrize(
    ("found", "variables"),
    [
        (OMPI, {"PATH": "/p/bin", "LD_LIBRARY_PATH": "/p/lib", "OPAL_PREFIX": "/p",
                "PRTE_PREFIX": "/p", "PMIX_PREFIX": "/p"}),
        (MPICH, {"PATH": "/p/bin", "LD_LIBRARY_PATH": "/p/lib"}),
        (replace(OMPI, bin="/usr/bin"), {"PATH": "/p/bin:/usr/bin"}),
    ],
)  # fmt: skip
def test_the_variables_of_a_moved_prefix_and_of_the_hosts_own_mpi(found, variables):
    there = found if found.bin else replace(found, bin="/p/bin")
    assert dict(mpi.env_vars("/p", there)) == variables


@pytest.mark.parametrize("word", mpi.WORDS)
def test_the_lock_remembers_what_was_asked_for(word):
    assert mpi.word_of(mpi.mpi_requirement(word, "impi-rt<2021.19")) == word
