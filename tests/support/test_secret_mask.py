"""Secrets that have a name are masked in any text; what has none is kept. § stands for a secret."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ipexctl.base.secret_mask import MASK, SecretMask, secret_arguments, secret_values
from ipexctl.common.secret_names import is_secret_file, is_secret_name

TRAINING_LOGS = sorted((Path(__file__).parents[1] / "metrics/corpus").rglob("*.log"))
WORD, TWO, BASE64 = "correct-horse-77", "two words", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzKq81Tn0vE="
IN_TEXTS = (
    ("DB_PASSWORD=§ python train.py", WORD), ("export WANDB_API_KEY='§'", TWO),
    ('declare -x AWS_SECRET_ACCESS_KEY="§"', BASE64), ("api_key: §", TWO),
    ("  registry_password:   §", TWO), ('{"client_secret": "§", "step": 7}', TWO),
    ('{\\"msg\\": \\"login\\", \\"refresh_token\\": \\"§\\"}', TWO),
    ("Namespace(lr=0.1, hub_token='§', epochs=3)", TWO), ("{'password': b'§', 'lr': 1}", TWO),
    ("Config(token=§, lr=1)", WORD), ('secret_key = "§"', TWO), ("dbPassword := §", WORD),
    ("AccessKeySecret => §", WORD), ("[credentials]\naws_session_token = §", BASE64),
    ("password%3D§&x=1", WORD), ("AccountName=a;AccountKey=§;EndpointSuffix=x", BASE64),
    ("Password=§;", WORD), ("token：§", WORD), ("token -> §", WORD),
    ("argv: ['--api-key', '§', '--lr', '0.1']", TWO),
    ("headers=[('Authorization', '§'), ('Accept', '*/*')]", "Token abcdefgh"),
    ("python train.py --token § --lr 0.1", WORD), ("train.py --db-pass '§' --lr 0.1", TWO),
    ("train.py -token §", WORD), ("train.py '--password=§' --lr 0.1", TWO),
    ("train.py --password='it'\"'\"'§' x", TWO), ("curl -H 'X-Api-Key: §' https://x.example", TWO),
    ("Authorization: Basic §", "YW5uOmh1bnRlcjI="), ("sent Bearer § to x", BASE64),
    ("Proxy-Authorization: Bearer §", WORD), ("< Set-Cookie: §; HttpOnly", "a=abcdef0123"),
    ("https://ann:§@idx.example/simple", WORD), ("git+https://§@git.example/x.git", WORD),
    ("https://ann:§@idx.example", "p@ss/w:ord"), ("postgres://ann:§@db/x", "p%40ss%2Fword"),
    ("GET /x?api_key=§&lr=1", WORD), ("https://x.example/y?lr=1&sig=§", BASE64),
    ("os.environ['HF_TOKEN'] = '§'", TWO), ("step 1\\nHF_TOKEN=§\\nstep 2", WORD),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\n§\n-----END OPENSSH PRIVATE KEY-----", BASE64),
    ("KEY='-----BEGIN RSA PRIVATE KEY-----\\n§\\n-----END RSA PRIVATE KEY-----'", BASE64),
    ("cut\n§\n-----END PRIVATE KEY-----", BASE64), ("-----BEGIN PRIVATE KEY-----\n§\n", BASE64),
    ("token='§", TWO), ("token=$§", "ecret1"),
    ("t.py --password § --lr 1", "--hunter2long"), ("t.py --api-key § x", "-hunter3"),
    ('{"name": "HF_TOKEN", "value": "§"}', TWO), ("- name: HF_TOKEN\n  value: §\n", WORD),
    ("{name: HF_TOKEN, value: §}", WORD), ('Cookie: "a=x"; §', WORD),
    ("password=['a', '§']", "it]s"), ("password={'x': '§'}, lr=1", TWO),
    ('api_keys: [\n  "§"\n]', TWO), ("credentials=('ann', '§')", TWO),
    ("<password>§</password>", TWO), ('<token type="x">§</token>', WORD),
    ("machine x login y password §", WORD), ("token['x'] = '§'", TWO), ("token[0]=§", WORD),
    ("<password><![CDATA[§]]></password>", TWO), ("Name: HF_TOKEN, Value: §", WORD),
    ('login bob password "§"', TWO), ("login u account a password §", WORD),
    ("A" * 5000 + "_TOKEN=§", WORD),
)  # fmt: skip
KEPT = (
    "step 7 loss 0.5 lr 1e-4 tokens/s 5123.4", "train.py --max-tokens 512 --pad-token-id 0 -p 8080",
    "KeyError: 'layer.weight'", "TypeError: unexpected keyword argument 'key_dim'",
    "TOKENIZERS_PARALLELISM=false PWD=/home/ann", "tokens: 512, num_tokens=7",
    "url=http://10.0.0.1:29500/x?lr=1", "the password is not valid", "HF_TOKEN=$HF_TOKEN",
    "--secret-env HF_TOKEN", "eos_token_id: 2", "sort_key=name", "monkey=1 bypass=2 public_key=x",
    "Config(lr=[1, 2], betas=(0.9, 0.99))", "name: RANKS, value: 8", "login as ann: password",
)  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), IN_TEXTS)
def test_a_named_secret_is_masked(text: str, secret: str) -> None:
    found = SecretMask().mask_text(text.replace("§", secret))
    assert [part for part in (secret, *secret.split()) if part in found] == [] and MASK in found


@pytest.mark.parametrize("text", KEPT)
def test_other_texts_are_kept(text: str) -> None:
    assert SecretMask().mask_text(text) == text


@pytest.mark.parametrize("path", TRAINING_LOGS, ids=lambda path: path.name)
def test_a_training_log_is_kept(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    changed = [line for line in lines if SecretMask().mask_text(line) != line]
    assert [line for line in changed if "per token:" not in line] == []


def test_a_secret_of_the_command_line_is_masked_wherever_it_is_printed() -> None:
    command = "t.py --api-key abc123 '--password=two words' https://u:p%40ss99@h/ --token true"
    assert secret_arguments(command) == {
        "abc123", "two words", "u:p%40ss99", "p%40ss99", "p@ss99"
    }  # fmt: skip
    said = SecretMask((), command).mask_text("refused: abc123, two words, p@ss99; true")
    assert said == f"refused: {MASK}, {MASK}, {MASK}; true"


def test_values_of_documents_are_judged_by_their_names() -> None:
    given = {
        "argv": ["--api-key", WORD, "--password=a b", "--lr", "0.1"],
        "rows": [["Cookie", WORD, "x"]], "api_key": [1],
        "env": [{"name": "MY_TOKEN", "value": TWO}, {"name": "RANKS", "value": "8"}],
    }  # fmt: skip
    assert SecretMask().mask_document(given) == {
        "argv": ["--api-key", MASK, f"--password={MASK}", "--lr", "0.1"],
        "rows": [["Cookie", MASK, "x"]],
        "env": [{"name": "MY_TOKEN", "value": MASK}, {"name": "RANKS", "value": "8"}],
        "api_key": MASK,
    }  # fmt: skip


def test_a_variable_that_is_a_key_of_several_lines_is_masked_line_by_line() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nAbCd1234\nEfGh5678\n-----END PRIVATE KEY-----"
    mask = SecretMask(secret_values({"DEPLOY_KEY": key, "TOKEN_CHECK": "true", "PWD": "/x/y/z"}))
    assert mask.mask_text(f"a {key!r}, EfGh5678\n{key}") == f"a '{MASK}', {MASK}\n{MASK}"
    assert mask.mask_text("/x/y/z true") == "/x/y/z true"


@pytest.mark.parametrize(
    ("names", "secret"),
    [
        (("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "OPENAI_KEY", "password"), True),
        (("--api-key", "dbPassword", "X-Auth"), True),
        (("TOKENIZERS_PARALLELISM", "MONKEY", "KEYBOARD"), False),
    ],
)
def test_names_that_look_like_secrets(names: tuple[str, ...], secret: bool) -> None:
    assert [name for name in names if is_secret_name(name) is not secret] == []


def test_files_with_secrets_are_in_the_same_list() -> None:
    names = (".ENV.local", "id_rsa", "id_x.py")
    assert [is_secret_file(name) for name in names] == [True, True, False]


HOSTILE = (
    "a=", "a", "=", '"', "'", "'\"", " ", "\n", "\\", '\\"', "-", "@", ":", "token", "token=",
    "token[", "token=[", "token=['", "<token ", "<", "token value", "token,", " login ",
    "token= ", "token ", "--token ", 'token="', 'token=\\"', "key='", "'key', ", "://", "a:b@c",
    "http://a", "http://a@", "-----BEGIN", "-----BEGIN PRIVATE KEY-----", "Bearer ", "password:",
    "_", "--", "token='\\'", "'token=", "token:\\\\\\'",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length_alone(piece: str) -> None:
    short, long = (_seconds(piece * (size // len(piece))) for size in (5_000, 40_000))
    assert long < 0.02 + 8 * 3 * short


def _seconds(text: str) -> float:
    """The least of three: others use this machine, too."""
    mask = SecretMask(["abcdefgh"])

    def once() -> float:
        began = time.process_time()
        mask.mask_text(text)
        return time.process_time() - began

    return min(once() for _ in range(3))
