"""Ansible's inventories, read as Ansible itself reads them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from ipexctl.errors import InputError
from ipexctl.inventory.ansible_ini import is_ini
from ipexctl.inventory.hostfile_formats import group_members, render_inventory
from ipexctl.inventory.hostfile_text import parse_hostfile
from ipexctl.inventory.inventory import Host, Inventory

INI = """\
# the old machines
mail.example ansible_port=2201

[web]
web[01:03].example
lone ansible_host=10.0.0.9 ansible_ssh_user=root   # a comment

[web:vars]
ansible_user=bob
http_port = 80
ansible_ssh_common_args='-o ProxyCommand="ssh -W %h:%p gate"'

[db]
db-[a:c] ansible_user=carl slots=3

[prod:children]
web
db

[prod:vars]
ansible_user=dora
ansible_python_interpreter=/usr/bin/python3.11
nic=ib0

[all:vars]
ansible_port=2222
"""

YAML = """\
all:
  vars: {ansible_port: 2222}
  hosts:
    mail.example: {ansible_port: 2201}
  children:
    prod:
      vars:
        ansible_user: dora
        ansible_python_interpreter: /usr/bin/python3.11
        nic: ib0
      children:
        web:
          vars: &bob
            ansible_user: bob
            http_port: 80
            db_password: !vault |
              $ANSIBLE_VAULT;1.1;AES256
              6162
          hosts:
            web[01:03].example:
            lone:
              ansible_host: 10.0.0.9
              ansible_ssh_user: root
        db:
          hosts:
            db-[a:c]:
              <<: *bob
              ansible_user: carl
              slots: 3
"""


def said(hosts: Inventory) -> dict[str, tuple[object, ...]]:
    return {h.name: (h.address, h.port, h.user, h.slots, h.python, h.nic) for h in hosts.hosts}


EXPECTED = {
    "mail.example": ("", 2201, "", 0, "", ""),
    **{f"web0{i}.example": ("", 2222, "bob", 0, "/usr/bin/python3.11", "ib0") for i in (1, 2, 3)},
    "lone": ("10.0.0.9", 2222, "root", 0, "/usr/bin/python3.11", "ib0"),
    **{f"db-{c}": ("", 2222, "carl", 3, "/usr/bin/python3.11", "ib0") for c in "abc"},
}


@pytest.mark.parametrize("text", [INI, YAML], ids=["ini", "yaml"])
def test_variables_of_hosts_groups_and_parents(text):
    found = parse_hostfile(text, "hf")
    assert said(found) == EXPECTED
    webs = ("web01.example", "web02.example", "web03.example", "lone")
    dbs = ("db-a", "db-b", "db-c")
    assert group_members(found) == {"db": dbs, "prod": (*webs, *dbs), "web": webs}


def test_what_is_not_used_is_said():
    ssh, misspelled = parse_hostfile(INI, "hf").notes
    assert ssh.endswith(": ansible_ssh_common_args")
    assert misspelled.startswith("http_port ") and "'port'" in misspelled
    assert ("http_port", "80") in parse_hostfile(INI, "hf")["web01.example"].vars


LISTED = """\
[aaa]
h slots=2 ansible_password="a\\"b"
[zzz]
h
[all:children]
aaa
[aaa:vars]
ansible_user=aaa
[zzz:vars]
ansible_user="zzz" # the last one
ansible_port='22' # hello
"""


def test_a_group_is_below_all_whether_listed_there_or_not(tmp_path):
    (host,) = parse_hostfile(LISTED, "hf").hosts
    assert (host.user, host.port, host.slots) == ("zzz", 22, 2)
    theirs = ansible_inventory(LISTED, tmp_path)["hosts"]["h"]
    assert (theirs["ansible_user"], int(theirs["ansible_port"])) == ("zzz", 22)
    assert theirs["ansible_password"] == 'a"b'


def test_a_python_found_by_env_is_its_name():
    text = '[a]\nx ansible_python_interpreter="/usr/bin/env python3"\n'
    assert parse_hostfile(text, "hf").hosts[0].python == "python3"


@pytest.mark.parametrize("name", ["1st", "_x", "a-f", "2024.rack", "10_0"])
def test_a_group_may_begin_with_a_number(name):
    found = parse_hostfile(f"[{name}]\nx\n", "hf")
    assert group_members(found) == {name: ("x",)}
    assert group_members(
        parse_hostfile(render_inventory(found, "ansible").text, "hf")
    ) == group_members(found)


@pytest.mark.parametrize(("text", "names"), [("[1-3]\n", "1 2 3"), ("[fe80::1]\n", "fe80::1")])
def test_a_range_and_an_address_are_no_group(text, names):
    with suppress(InputError):  # as hosts they are judged elsewhere
        assert " ".join(h.name for h in parse_hostfile(text, "hf").hosts) == names
    assert not is_ini(text)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("[a]\nx ansible_host={{y}}\n", "  # "),
        ("all:\n  hosts:\n    a: {ansible_host: !vault x}\n", "--ask-vault-pass  "),
    ],
)
def test_the_hint_about_a_template_or_vault_shows_the_value(text, options):
    with pytest.raises(InputError) as e:
        parse_hostfile(text, "my hf")
    command = "ansible all -i 'my hf' -m debug -a var=ansible_host "
    assert e.value.hint.startswith(command + options)


@pytest.mark.parametrize("text", [INI, YAML.replace("!vault |", "|")], ids=["ini", "yaml"])
def test_ansible_itself_sees_the_same(text, tmp_path):
    theirs = ansible_inventory(text, tmp_path)
    ours = parse_hostfile(text, "hf")
    assert list(theirs["hosts"]) == [h.name for h in ours.hosts]
    for host in ours.hosts:
        values = theirs["hosts"][host.name]
        assert values.get("ansible_host", "") == host.address
        assert int(values.get("ansible_port", 0)) == host.port
        # the older name ansible_ssh_user goes before a group's ansible_user in Ansible's SSH plugin
        assert (values.get("ansible_ssh_user") or values.get("ansible_user", "")) == host.user
        assert values.get("ansible_python_interpreter", "") == host.python
    assert theirs["groups"] == {g: set(names) for g, names in group_members(ours).items()}


def ansible_inventory(text: str, folder: Path) -> dict[str, dict]:
    """What the real program makes of it."""
    program = shutil.which("ansible-inventory", path=os.environ.get("ANSIBLE_BIN"))
    program = program or shutil.which("ansible-inventory")
    if not program:
        pytest.skip("there is no ansible-inventory; ANSIBLE_BIN names its folder")
    file = folder / ("hosts.yaml" if text.lstrip().startswith(("all:", '"')) else "hosts")
    file.write_text(text)
    done = subprocess.run(
        [program, "-i", file, "--list"],
        env={**os.environ, "HOME": str(folder), "ANSIBLE_INVENTORY_UNPARSED_FAILED": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    hosts: dict[str, dict] = {h: {} for h in _walk(found, "all")}
    hosts |= found["_meta"]["hostvars"]
    order = [h.name for h in parse_hostfile(text, "hf").hosts]
    names = sorted(hosts, key=lambda h: order.index(h) if h in order else len(order))
    groups = {g: set(_walk(found, g)) for g in found if g not in ("all", "ungrouped", "_meta")}
    return {"hosts": {h: hosts[h] for h in names}, "groups": groups}


def _walk(found: dict, group: str) -> list[str]:
    node = found.get(group, {})
    inside = [h for child in node.get("children", []) for h in _walk(found, child)]
    return list(dict.fromkeys([*node.get("hosts", []), *inside]))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[web]\nnode1:22", "hf:2:1: node1:22 may be a port or a number of ranks"),
        ("[web]\nnode1:2222", "hf:2:1: node1:2222 may be a port or a number of ranks"),
        ("[web]\n-x", "hf:2:1: '-x' is not a host: a name cannot start with '-'"),
        ("[web]\na b", "hf:2:3: unexpected 'b' after the host"),
        ("[web:var]\na=1", "hf:1:1: 'var' is not a kind of section (did you mean 'vars'?)"),
        ("[w:vars]\na", "hf:2:1: expected NAME=VALUE in [w:vars]"),
        ("[a]\nx\n[ab:vars]\nq=1", None),
        ("[a:children]\nbb\n[b]\nx", "hf:2:1: there is no group 'bb' (did you mean 'b'?)"),
        ("[a:children]\nb\n[b:children]\na\n[c]\nx", "hf:1:1: the group 'a' contains itself"),
        ("[a:children]\na\n[c]\nx", "hf:1:1: the group 'a' contains itself"),
        ("[all:children]\nbb\n[b]\nx", "hf:2:1: there is no group 'bb' (did you mean 'b'?)"),
        ("[a:children]\nall\n[c]\nx", "hf:2:1: 'all' cannot be inside another group"),
        ("[a]\nx ansible_host='{{ y }}'", None),
        ("[a]\nx ansible_port=0", "hf:2:3: ansible_port: '0' is not a port"),
        ("[a]\nx ansible_connection=docker", None),
        ("[a]", "hf lists no hosts"),
        ("all: [a]\n", "hf:1:1: 'all' is not a group"),
        ("all:\n  host:\n    a:\n", "hf:2:3: unknown key 'host' in group all"),
        ("all:\n  hosts:\n    a: {ansible_port: !vault x}\n", None),
        ("all:\n  hosts: !!python/object:os.system {}\n", None),
        ("all:\n  hosts:\n    a: 3\n", "hf:3:8: variables must be a mapping of NAME: VALUE"),
        ('{"_meta": {"hostvars": {}}, "all": {}}', None),
    ],
)
def test_what_is_no_inventory_is_refused_with_its_place(text, what):
    with pytest.raises(InputError) as e:
        parse_hostfile(text, "hf")
    assert what is None or e.value.what.startswith(what)


def test_two_names_with_one_address_are_said():
    found = parse_hostfile("[a]\nx[1:2] ansible_host=10.0.0.1\n", "hf")
    (note,) = found.notes
    assert note.startswith("x[1-2] ") and note.endswith(" 10.0.0.1")


def test_long_chains_of_groups_are_read_at_once():
    chain = "".join(f"[g{i}:children]\ng{i + 1}\n" for i in range(900))
    found = parse_hostfile(chain + "[g900]\nx\n", "hf")
    assert len(found.hosts[0].groups) == 901
    assert found.hosts[0].name == Host("x").name
