"""What sudo says is understood in any language that the host's account has set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ipexctl.remote.failure import Failure
from ipexctl.remote.play.sudo_worker import SudoWorker, run_as_root

SUDO = """\
#!/bin/sh
messages=${LC_ALL:-${LC_MESSAGES:-$LANG}}
[ "$messages" = C ] && words='1 incorrect password attempt' || words='1 falscher Versuch'
echo "sudo: $words ($LC_CTYPE)" >&2
exit 1
"""


@pytest.mark.parametrize("name", ["LANG", "LC_ALL"])
def test_a_wrong_password_is_told_where_sudo_speaks_another_language(tmp_path, monkeypatch, name):
    sudo = tmp_path / "sudo"
    sudo.write_text(SUDO)
    sudo.chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for variable in ("LC_ALL", "LC_MESSAGES", "LC_CTYPE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, "de_DE.UTF-8")
    worker = SudoWorker(SimpleNamespace(agent=SimpleNamespace(sources={})), "wrong")
    for start in (worker._start, lambda: run_as_root(["true"], "wrong")):
        with pytest.raises(Failure) as refused:
            start()
        assert refused.value.what.startswith("sudo refused the password of ")
        assert ("(de_DE.UTF-8)" in refused.value.why) == (name == "LC_ALL")
