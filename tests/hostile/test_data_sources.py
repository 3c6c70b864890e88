"""A Hub or a server of files that does not keep to what it should: data pull ends soon, with words
that name it, and nothing of its names reaches the disk or the terminal."""

from __future__ import annotations

import http.server
import json
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ipexctl.packages import file_fetch, http_opener
from tests.cli import Ended, ipexctl

pytest.importorskip("huggingface_hub")
COMMIT = "1" * 40
Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer, address: str = "127.0.0.1") -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{address}:{server.server_port}"
    server.shutdown()
    server.server_close()


def pull(folder: Path, url: str, source: str = "hf:models/acme/tiny", **variables: str) -> Ended:
    (folder / "home").mkdir(exist_ok=True)
    env = {
        "HOME": str(folder / "home"), "PATH": os.environ["PATH"], "HF_ENDPOINT": url,
        "HF_HOME": str(folder / "hf"), "HF_HUB_CACHE": str(folder / "hf/hub"),
        **variables,
    }  # fmt: skip
    return ipexctl("data", "pull", source, "--yes", cwd=folder, env=env)


def begin(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()


def endless(request: http.server.BaseHTTPRequestHandler) -> None:
    begin(request)
    request.wfile.write(b'{"sha": "')
    while True:
        request.wfile.write(b"x" * 65536)


def dripping(request: http.server.BaseHTTPRequestHandler) -> None:
    begin(request)
    while True:
        request.wfile.write(b" " * 5000)
        time.sleep(0.2)


def nested(request: http.server.BaseHTTPRequestHandler) -> None:
    begin(request)
    request.wfile.write(b"[" * 100_000)


def listing(*names: str) -> Answer:
    rows = [{"rfilename": name, "size": 1, "blobId": "2" * 40} for name in names]

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        begin(request)
        request.wfile.write(json.dumps({"sha": COMMIT, "siblings": rows}).encode())

    return answer


def redirecting(to: str) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", to)
        request.end_headers()

    return answer


@pytest.mark.parametrize("answer", [endless, dripping, nested], ids=lambda a: a.__name__)
def test_a_description_without_end_is_given_up(
    tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_fetch, "LONGEST", 2.0, raising=False)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(answer) as url:
        done = pull(tmp_path, url)
    assert done.slug == "pull-failed", done
    assert time.monotonic() - began < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


ODD = [
    "a\x1b]0;PWN\x07", "a\nb", "a\u2028b", "a\u202eb", "../a", "/etc/a", "a/../../b", ".git/config",
    "x/.GIT/hooks/post-checkout", "a//b", "./a", "", ".", "a\0b",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_a_name_that_is_not_a_plain_path_is_refused(tmp_path: Path, name: str) -> None:
    with serving(listing("config.json", name)) as url:
        done = pull(tmp_path, url)
    assert done.slug == "hub-answer-invalid", done
    assert not {"\x1b", "\x07", "\u2028", "\u202e"} & set(done.stdout + done.stderr)
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("name", ["%2e%2e", "%2E%2e/", ".git", "%2egit", ".GIT", "a%1b]0;x", "%0a"])
def test_an_address_whose_file_would_have_such_a_name_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is asked of a host, and with nothing kept."""
    with serving(begin) as url:
        done = pull(tmp_path, url, f"{url}/{name}")
    assert done.slug == "source-invalid", done
    assert "\x1b" not in done.stdout + done.stderr
    assert not list((tmp_path / "home").rglob("pulled"))


@pytest.mark.parametrize("revision", ["/tmp/x", "../../x", "a/../../b", "a//b", "."])
def test_a_revision_that_leads_out_of_the_cache_is_refused(tmp_path: Path, revision: str) -> None:
    done = pull(tmp_path, "http://127.0.0.1:9", f"hf:models/acme/tiny@{revision}")
    assert done.slug == "source-invalid", done


def test_more_files_than_anybody_needs_are_refused(tmp_path: Path) -> None:
    with serving(listing(*map(str, range(300_000)))) as url:
        done = pull(tmp_path, url)
    assert done.slug == "too-many-files", done


def hang_up(listener: socket.socket, came: list[int]) -> None:
    with suppress(OSError):  # the listener is closed at the end of the test
        while True:
            listener.accept()[0].close()
            came.append(1)


@pytest.mark.parametrize("source", ["hf:models/acme/tiny", "{}/set.tar"])
@pytest.mark.parametrize("scheme", ["ftp", "file", "data"])
def test_a_reference_to_what_is_not_http_is_not_followed(
    tmp_path: Path, scheme: str, source: str
) -> None:
    """The FTP server would be asked, and a file of this machine sent as data."""
    asked: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        (tmp_path / "secret").write_text("secret")
        to = {
            "ftp": f"ftp://127.0.0.1:{other.getsockname()[1]}/set.tar",
            "file": f"file://{tmp_path}/secret",
            "data": "data:text/plain,secret",
        }[scheme]
        threading.Thread(target=hang_up, args=(other, asked), daemon=True).start()
        with serving(redirecting(to)) as url:
            done = pull(tmp_path, url, source.format(url))
    assert done.returncode not in (0, 70), done
    assert not asked
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "secret"]
    assert not [path for path in kept if b"secret" in path.read_bytes()]


def one_file(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "6")
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(b"secret")


def count_one_as_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2, and no other address."""
    monkeypatch.setattr(http_opener, "is_public", lambda address: address == "127.0.0.2")


@pytest.mark.parametrize(
    ("first", "then", "taken"),
    [
        ("127.0.0.2", ["127.0.0.1"], False),
        ("127.0.0.2", ["127.0.0.2", "127.0.0.1"], False),
        ("127.0.0.1", ["127.0.0.2", "127.0.0.1"], False),
        ("127.0.0.2", ["127.0.0.2"], True),
        ("127.0.0.1", ["127.0.0.1"], True),  # the user named it
        ("127.0.0.1", ["127.0.0.2"], True),
    ],
)
def test_a_public_server_does_not_refer_to_private_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: list[str], taken: bool
) -> None:
    count_one_as_public(monkeypatch)
    asked: list[int] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(1)
        one_file(request)

    with ExitStack() as stack:
        url = stack.enter_context(serving(answer, then[-1]))
        for address in reversed([first, *then[:-1]]):
            url = stack.enter_context(serving(redirecting(f"{url}/set.csv"), address))
        done = pull(tmp_path, url, f"{url}/set.csv")
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert bool(asked) is taken and (b"secret" in kept) is taken, done
    if not taken:
        assert done.slug == "pull-failed" and "not public" in done.stderr, done
        assert then[-1] in done.stderr, done


SPELLINGS = [
    "http://localhost", "http://LOCALHOST", "//LocalHost", "http://127.0.0.1",
    "http://127.0.0.%31", "http://%31%32%37.0.0.1", "http://l%6fcalhost", "http://[::FFFF:127.0.0.1]",
    "http://[::ffff:7f00:1]", "http://0x7F000001", "http://0X7f.1", "http://2130706433",
    "http://017700000001", "http://127.1", "http://0",
]  # fmt: skip


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_a_private_address_is_refused_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    count_one_as_public(monkeypatch)
    asked: list[int] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(1)
        one_file(request)

    with serving(answer) as private:
        to = f"{spelled}:{private.rpartition(':')[2]}/set.csv"
        with serving(redirecting(to), "127.0.0.2") as public:
            done = pull(tmp_path, public, f"{public}/set.csv")
    assert not asked
    assert done.slug == "pull-failed" and "not public" in done.stderr, done


@pytest.mark.parametrize("host", ["\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "a" * 70])
def test_a_redirect_to_a_name_that_is_none_is_a_failure_of_its_server(
    tmp_path: Path, host: str
) -> None:
    with serving(redirecting(f"http://{host}:8801/x".encode().decode("latin-1"))) as url:
        done = pull(tmp_path, url, f"{url}/set.csv")
    assert (done.returncode, done.slug) != (70, "bug") and "Traceback" not in done.stderr, done
    assert done.returncode not in (0, 70), done


@contextmanager
def forwarding(asked: list[str], then: Answer) -> Iterator[str]:
    """A proxy: it answers requests itself, and opens no tunnels."""

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        then(request)

    with serving(answer) as url:
        yield url


def test_a_proxy_decides_itself_where_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on a private address, as proxies are, whatever it is called and asked for."""
    count_one_as_public(monkeypatch)
    asked: list[str] = []
    with forwarding(asked, one_file) as proxy:
        port = proxy.rpartition(":")[2]
        to = f"http://127.0.0.1:{port}/set.csv"  # the same host as the proxy's
        with serving(redirecting(to), "127.0.0.2") as public:
            given = {"http_proxy": f"LOCALHOST:{port}", "no_proxy": "127.0.0.2"}
            done = pull(tmp_path, public, f"{public}/set.csv", **given)
    assert set(asked) == {to} and "not public" not in done.stderr, done


def test_a_tunnel_of_a_proxy_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count_one_as_public(monkeypatch)
    tunnels: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def refuse() -> None:
            with suppress(OSError):  # the listener is closed at the end of the test
                while True:
                    with proxy.accept()[0] as connection:
                        tunnels.append(connection.recv(4096).decode().partition("\r\n")[0])
                        connection.sendall(b"HTTP/1.1 403 No\r\n\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        with serving(redirecting("https://files.test/set.csv"), "127.0.0.2") as public:
            given = {
                "https_proxy": f"http://127.0.0.1:{proxy.getsockname()[1]}",
                "no_proxy": "127.0.0.2",
            }
            done = pull(tmp_path, public, f"{public}/set.csv", **given)
    assert tunnels and tunnels[0].startswith("CONNECT files.test:443"), done
    assert "not public" not in done.stderr, done


def test_a_server_behind_a_proxy_does_not_refer_to_private_addresses_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who uses a proxy excepts localhost and its networks from it."""
    count_one_as_public(monkeypatch)
    asked: list[int] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(1)
        one_file(request)

    proxied: list[str] = []
    with serving(answer) as private, forwarding(proxied, redirecting(f"{private}/x")) as proxy:
        source = "http://files.test/set.csv"
        done = pull(tmp_path, proxy, source, http_proxy=proxy, no_proxy="localhost,127.0.0.1")
    assert set(proxied) == {source} and not asked, done
    assert "127.0.0.1" in done.stderr and "not public" in done.stderr, done


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True), ("2606:4700::1111", True), ("10.1.2.3", False), ("172.16.0.1", False),
        ("192.168.1.1", False), ("127.0.0.1", False), ("169.254.169.254", False), ("::1", False),
        ("fe80::1%eth0", False), ("fd00::1", False), ("::ffff:127.0.0.1", False),
        ("2002:7f00:1::", False), ("0.0.0.0", False), ("100.64.0.1", False), ("224.0.0.1", False),
        ("::", False), ("::ffff:8.8.8.8", True), ("64:ff9b::a00:1", False),
        ("fec0::9", False), ("64:ff9b:1::808:808", False), ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False), ("::ffff:0:8.8.8.8", True),
        ("192.0.0.9", False), ("192.0.0.170", False), ("192.0.1.1", True),
        ("168.63.129.16", False), ("168.63.129.17", True), ("::ffff:168.63.129.16", False),
        ("192.88.99.1", False), ("192.88.98.1", True), ("3fff:fff::1", False), ("5f00::1", False),
        ("2606:4700::5efe:10.0.0.1", False), ("2606:4700::200:5efe:127.0.0.1", False),
        ("2606:4700::200:5efe:168.63.129.16", False), ("2606:4700::200:5efe:8.8.8.8", True),
        ("2606:4700::5efe:8.8.8.8", True), ("2606:4700::100:5efe:10.0.0.1", True),
    ],
)  # fmt: skip
def test_private_addresses_are_known(address: str, public: bool) -> None:
    assert http_opener.is_public(address) is public


def test_redirects_in_circles_end(tmp_path: Path) -> None:
    with serving(redirecting("/again")) as url:
        done = pull(tmp_path, url, f"{url}/set.tar")
    assert done.returncode not in (0, 70), done
