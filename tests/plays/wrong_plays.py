"""Plays that are wrong, by what is wrong with them."""

from __future__ import annotations


def _bomb() -> str:
    lines = ["vars:", "  a: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"  b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9)]
    return "\n".join([*lines, "steps: [sh: id]"])


def _merge_bomb() -> str:
    keys = "\n".join(f"  k{n}: x" for n in range(5000))
    return f"vars: &v\n{keys}\nsteps:\n" + "- <<: *v\n" * 20_000


def _text_bomb() -> str:
    lines = [f"  v{n}: '{f'${{v{n - 1}}}' * 10}'" for n in range(1, 13)]
    return "\n".join(["vars:", "  v0: xxxxxxxxxx", *lines, "steps:", "  - sh: echo ${v12}", ""])


def _step(text: str) -> str:
    return f"steps:\n  - {text}\n"


TEXTS: dict[str, str] = {
    "Jinja": "steps:\n  - file: {path: ~/x, content: 'a={{ lr }}'}\n",
    "Jinja in sh": "steps:\n  - sh: echo {{ inventory_hostname | upper }}\n",
    "Ansible's name of a host": "steps:\n  - sh: echo ${inventory_hostname}\n",
    "a loop variable of the shell": "steps:\n  - sh: for i in 1 2; do echo ${i}; done\n",
    "Ansible's full names": "steps:\n  - ansible.builtin.copy: {src: a, dest: ~/b}\n",
    "arguments that are not indented": "steps:\n  - file:\n    path: ~/x\n",
    "an argument beside a mapping": "steps:\n  - sh: {cmd: id}\n    creates: x\n",
    "an instruction set that does not exist": "steps:\n  - sh: id\n    when: {isa: amx2}\n",
    "a size with a unit": "steps:\n  - sh: id\n    when: {memory: {min: 1GiB}}\n",
    "Ansible's facts": "steps:\n  - sh: id\n    when: {ansible_memtotal_mb: {min: 1}}\n",
    "a comparison of Ansible": "steps:\n  - sh: id\n    when: ansible_os_family == 'Debian'\n",
    "a variable that one host of two has": "steps:\n  - sh: echo ${site}\n",
    "variables of variables, ten times each": _text_bomb(),
    "errors in several steps": (
        "become: true\nsteps:\n  - sh: id\n    regster: x\n  - fil: {path: x}\n"
        "  - sh: id\n    notify: nobody\n"
    ),
    "wrong values in several steps": (
        "steps:\n  - sh: echo ${lr}\n  - file: {path: x, mod: 1}\n  - sh: {cmd: id, craetes: x}\n"
    ),
    # -- loops and templates --
    "a loop that is no list": "steps:\n  - sh: echo ${item}\n    loop: a\n",
    "an empty loop": "steps:\n  - sh: echo ${item}\n    loop: []\n",
    "a loop of lists": "steps:\n  - sh: echo ${item}\n    loop: [[a, b]]\n",
    "a loop of deep mappings": "steps:\n  - sh: echo ${item.a}\n    loop: [{a: {b: c}}]\n",
    "a loop with a wrong name": "steps:\n  - sh: echo ${item.a}\n    loop: [{a-b: c}]\n",
    "a loop without a value": "steps:\n  - sh: echo ${item}\n    loop: [a, ~]\n",
    "an item without a loop": "steps:\n  - sh: echo ${item.name}\n",
    "a name that one item lacks": (
        "steps:\n  - sh: echo ${item.size}\n    loop: [{name: a, size: 1}, {name: b}]\n"
    ),
    "an unknown name in an item": "steps:\n  - sh: echo ${item}\n    loop: [a, '${lr}']\n",
    "a variable called item": "vars: {item: 1}\nsteps: [sh: id]\n",
    "a folder as a template": _step("copy: {src: ., dest: /x, template: true}"),
    "an unknown name in a template": (
        "vars: {a: x}\nsteps:\n  - copy: {src: play.yaml, dest: '/${a}', template: true}\n"
        "# a comment with ${lr}\n"
    ),
    "Jinja in a template": (
        "steps:\n  - copy: {src: play.yaml, dest: /x, template: true}\n# {{ lr }}\n"
    ),
    "a user called by a path": _step("user: {name: ../x}"),
    "a user with a shell that is no path": _step("user: {name: a, shell: bash}"),
    "append without groups": _step("user: {name: a, append: true}"),
    "remove of a user that is present": _step("user: {name: a, remove: true}"),
    # -- YAML --
    "a tab": "steps:\n\t- sh: id\n",
    "no closing bracket": "steps: [sh: id\n",
    "no closing quote": "steps:\n  - sh: 'id\n",
    "a colon in a value": "steps:\n  - sh: echo a: b\n",
    "braces without quotes": "steps:\n  - file: {path: /x, content: {{ var }}}\n",
    "a percent sign first": "steps:\n  - sh: %s\n",
    "wrong indentation": "steps:\n  - sh: id\n   name: a\n",
    "a duplicate key": "hosts: all\nhosts: node01\nsteps: [sh: id]\n",
    "two documents": "steps: [sh: id]\n---\nsteps: [sh: id]\n",
    "an unknown anchor": "steps: [sh: *a]\n",
    "an anchor in itself": "steps: &a [*a]\n",
    "a merge of text": "steps:\n  - sh: id\n    <<: text\n",
    "a YAML tag": _step("sh: !vault abc"),
    "a Python tag": _step("sh: !!python/object/apply:os.system [id]"),
    "a bomb of aliases": _bomb(),
    "a bomb of merges": _merge_bomb(),
    "deep nesting": "steps: " + "[" * 500,
    "deep nesting of mappings": "steps: " + "{a: " * 500,
    "a key that is a list": "? [a, b]\n: c\nsteps: [sh: id]\n",
    "a control character": 'steps:\n  - sh: id\n    name: "a\x01b"\n',
    # -- a play --
    "only text": "hello\n",
    "a list of two plays": "- steps: [sh: id]\n- steps: [sh: id]\n",
    "a list of nothing": "[]\n",
    "a list of steps": "- sh: id\n",
    "no steps": "hosts: all\n",
    "steps that are text": "steps: id\n",
    "an unknown key": "host: all\nsteps: [sh: id]\n",
    "a long unknown key": f"{'x' * 900}: all\nsteps: [sh: id]\n",
    "hosts that are a mapping": "hosts: {a: b}\nsteps: [sh: id]\n",
    "serial that is a share": "serial: 30%\nsteps: [sh: id]\n",
    "serial below zero": "serial: -1\nsteps: [sh: id]\n",
    "sudo that is no flag": "sudo: maybe\nsteps: [sh: id]\n",
    "a name with a line break": 'name: "a\\nb"\nsteps: [sh: id]\n',
    "vars that are a list": "vars: [a, b]\nsteps: [sh: id]\n",
    "a variable that is a list": "vars: {a: [1, 2]}\nsteps: [sh: id]\n",
    "a variable with a dash": "vars: {my-var: 1}\nsteps: [sh: id]\n",
    "a variable called env": "vars: {env: 1}\nsteps: [sh: id]\n",
    "a variable that uses one below": "vars:\n  a: 1${b}\n  b: 2\nsteps: [sh: id]\n",
    "handlers that are a list": "handlers: [sh: id]\nsteps: [sh: id]\n",
    "a handler that is not there": (
        "steps:\n  - sh: id\n    notify: restrat\nhandlers:\n  restart: [sh: id]\n"
    ),
    "a handler with a line break": 'handlers: {"a\\nb": [sh: id]}\nsteps: [sh: id]\n',
    # -- a step --
    "a step that is text": _step("id"),
    "a step that is nearly a keyword": _step("docter"),
    "a step without a keyword": _step("name: a"),
    "a step with two keywords": _step("{sh: id, file: /x}"),
    "an unknown keyword": _step("fiel: {path: /x}"),
    "an unknown key of a step": _step("{sh: id, nmae: x}"),
    "a name with a control character": _step('{sh: id, name: "a\\e[31mb"}'),
    "a name that is a list": _step("{sh: id, name: [a]}"),
    "tags that are a mapping": _step("{sh: id, tags: {a: b}}"),
    "an empty tag": _step("{sh: id, tags: [a, '']}"),
    "retries as YAML 1.1 writes octal": _step("{sh: id, retries: 0o17}"),
    "a delay without a unit that is known": _step("{sh: id, delay: 5w}"),
    "on that is nothing known": _step("{sh: id, on: [{a: b}]}"),
    # -- arguments --
    "an unknown argument": _step("file: {pth: /x}"),
    "a missing argument": _step("copy: {src: a}"),
    "arguments that are a list": _step("file: [/x]"),
    "an argument that is a list": _step("file: {path: [/x]}"),
    "a value of none that are known": _step("file: {path: /x, state: presnt}"),
    "a flag that is none": _step("line: {path: /x, line: a, create: 1}"),
    "no value": _step("file: {path: /x, content: }"),
    "null": _step("file: {path: /x, content: null}"),
    "a tilde without quotes": _step("sh: {cmd: id, chdir: ~}"),
    "a list that is a mapping": _step("sh: {cmd: id, changes: {a: b}}"),
    "a mapping that is text": _step("sh: {cmd: id, env: A=b}"),
    "a duration that is none": _step("sh: {cmd: id, timeout: 1w}"),
    "a negative duration": _step("sh: {cmd: id, timeout: -1}"),
    "a NUL": _step('sh: {cmd: "a\\0b"}'),
    "a NUL in a path": _step('file: {path: "/a\\0b"}'),
    "an empty sh": _step("sh: ' '"),
    "a path that is not absolute": _step("file: {path: etc/x}"),
    "an empty path": _step("file: {path: ''}"),
    "a mode that is none": _step("file: {path: /x, mode: 0o644}"),
    "a mode in decimal": _step("file: {path: /x, mode: 420001}"),
    "a link without src": _step("file: {path: /x, state: link}"),
    "src without a link": _step("file: {path: /x, src: /y}"),
    "content of a directory": _step("file: {path: /x, state: directory, content: a}"),
    "a line of two lines": _step('line: {path: /x, line: "a\\nb"}'),
    "a line that ends": _step('line: {path: /x, line: "a\\r"}'),
    "no line": _step("line: {path: /x}"),
    "nothing to take out": _step("line: {path: /x, state: absent}"),
    "both sides of a line": _step("line: {path: /x, line: a, insertafter: b, insertbefore: c}"),
    "a regular expression that is none": _step("line: {path: /x, line: a, regexp: '(b'}"),
    "an empty src": _step("copy: {src: '', dest: /x}"),
    "a dest that is not absolute": _step("copy: {src: a, dest: x/y}"),
    "a variable's name that is none": _step("run: {script: a.py, env: {A-B: '1'}}"),
    "outputs of a run that detaches": _step("run: {script: a.py, detach: true, outputs: out}"),
    "a variable that is secret and not": _step(
        "run: {script: a.py, env: {A: '1'}, secret_env: {A: '1'}}"
    ),
    "a number with a fraction": _step("run: {script: a.py, n: 1.5}"),
    "a number in other digits": _step("run: {script: a.py, n: ²}"),
    # -- names --
    "an unknown variable": _step("sh: echo ${lr}"),
    "an unknown variable, one is near": "vars: {lrate: 1}\nsteps:\n  - sh: echo ${lrat}\n",
    "a variable of the host, misspelled": _step("sh: echo ${siet}"),
    "a variable in the third line": "steps:\n  - sh: |\n      a\n      b\n        echo ${lr}\n",
    "the second of two": "vars: {a: 1}\nsteps:\n  - sh: >\n      ${a}\n      ${b} ${a}\n",
    "in double quotes": 'steps:\n  - sh: "\\t echo ${lr}"\n',
    "in a list": "steps:\n  - sh:\n      cmd: id\n      changes: [/a, '/${b}']\n",
    "in a mapping": _step("sh: {cmd: id, env: {A: '${b}'}}"),
    "an unknown fact": _step("sh: echo ${fact.ias}"),
    "a variable of the environment": _step("sh: echo ${env.IPEXCTL_NOT_SET}"),
    "a secret": _step("sh: echo ${secret.IPEXCTL_NOT_SET}"),
    "an expression": _step("sh: echo ${lr * 2}"),
    "a variable of the shell": _step("sh: echo ${HOME}"),
    "no closing brace": _step("sh: echo ${lr"),
    "an empty name": _step("sh: echo ${}"),
    "a value of two words in a here-document": (
        "vars: {a: x y}\nsteps:\n  - sh: |\n      cat <<EOF\n      ${a}\n      EOF\n"
    ),
    "a value after a backslash": "vars: {a: 1}\n" + _step("sh: echo \\${a}"),
    # -- when --
    "an unknown fact in when": _step("{sh: id, when: {ias: amx}}"),
    "fact. in when": _step("{sh: id, when: {fact.isa: amx}}"),
    "an unknown comparison": _step("{sh: id, when: {memory: {mn: 4}}}"),
    "a comparison with a list": _step("{sh: id, when: {memory: {min: [4]}}}"),
    "a comparison with a word": _step("{sh: id, when: {memory: {min: much}}}"),
    "an isa that is not known": _step("{sh: id, when: {isa: {min: avx1024}}}"),
    "a value that is a mapping": _step("{sh: id, when: {os: [{a: b}]}}"),
    "an unknown variable in when": _step("{sh: id, when: {os: '${x}'}}"),
}

FILES: dict[str, bytes] = {
    "an empty file": b"",
    "a file of comments": b"# nothing\n",
    "UTF-16": "steps: [sh: id]\n".encode("utf-16"),
    "a NUL byte": b"steps: [sh: id]\n# \0\n",
    "2 MB": b"steps: [sh: id]\n# " + b"x" * 2_000_000,
    "5 MB": b"steps: [sh: id]\n# " + b"x" * 5_000_000,
    "a directory": b"/proc/self",
    "a device": b"/dev/zero",
    "a file that is not there": b"/nonexistent/play.yaml",
}
