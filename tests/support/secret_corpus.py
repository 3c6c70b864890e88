"""Texts with one secret each, as programs print them. No secret is real; § stands for it."""

from __future__ import annotations

WORD, SHORT, HEX = "correct-horse-77", "hunter2", "0f5c7a91d3b24e6880aa17c3e9d4b652"
MIXED, BASE64 = "Zk3vQ9xLm2TtB8wYc1Rd", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzKq81Tn0vE"

IN_TEXTS: tuple[tuple[str, str], ...] = (
    # pairs
    ("DB_PASSWORD=§ python train.py", SHORT),
    ("export WANDB_API_KEY='§'", HEX),
    ('declare -x AWS_SECRET_ACCESS_KEY="§"', BASE64),
    ("api_key: §", WORD),
    ("  registry_password:   §  # for pulls", SHORT),
    ('{"client_secret": "§", "step": 7}', WORD),
    ('{\\"msg\\": \\"login\\", \\"refresh_token\\": \\"§\\"}', MIXED),
    ("Namespace(lr=0.1, hub_token='§', epochs=3)", WORD),
    ("{'password': b'§', 'lr': 1}", SHORT),
    ("Config(token=§, lr=1)", MIXED),
    ('secret_key = "§"', WORD),
    ("dbPassword := §", SHORT),
    ("AccessKeySecret => §", MIXED),
    ("[credentials]\naws_session_token = §", BASE64),
    ("API key: §", HEX),
    ("passphrase for key id_ed25519 is §", "tr0ub4dor"),
    ('"credentials": {\n    "blob": "§"\n  },', WORD),
    ("password: |\n  §\nnext: 1", "line-of-a-password"),
    ("- name: HF_TOKEN\n  value: §\n", WORD),
    ('{"name": "API_KEY", "value": "§"}', WORD),
    ("<password>§</password>", SHORT),
    ("password%3D§&x=1", SHORT),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=§;EndpointSuffix=x", BASE64),
    ("Server=db;User Id=sa;Password=§;", SHORT),
    # lists
    ("argv: ['--api-key', '§', '--lr', '0.1']", WORD),
    ('["--password", "§"]', SHORT),
    ("headers=[('Authorization', '§'), ('Accept', '*/*')]", "Token abcdefgh"),
    # options
    ("python train.py --token § --lr 0.1", WORD),
    ("train.py --db-pass '§' --lr 0.1", "two words"),
    ("train.py -token §", WORD),
    ("train.py -p § --lr 0.1", SHORT),
    ("argv: ['-p', '§']", SHORT),
    ("mysql -uroot -p§ db", SHORT),
    ("sshpass -p § ssh node01", SHORT),
    ("docker login -u ann -p § registry.example", SHORT),
    ("curl -u ann:§ https://x.example", SHORT),
    ("curl --user ann:§ https://x.example", SHORT),
    ("curl -H 'X-Api-Key: §' https://x.example", WORD),
    ("curl -b 'sid=§' https://x.example", WORD),
    ("redis-cli -h db -a § ping", SHORT),
    ("smbclient //nas/x -U ann%§", SHORT),
    ("train.py -k §", MIXED),
    ("openssl rsa -passin pass:§", SHORT),
    # headers
    ("Authorization: Basic §", "YW5uOmh1bnRlcjI="),
    ("Proxy-Authorization: Bearer §", MIXED),
    ("< Set-Cookie: §; HttpOnly", "session=abcdef0123"),
    ("Cookie: a=1; §", "sid=qwertyuiop"),
    ("X-Auth-Token: §", WORD),
    ("sent with Bearer §", MIXED),
    # files
    ("machine idx.example login ann password §", "plainwords"),
    ("machine idx.example\n  login ann\n  password §\n", "plainwords"),
    ("requirepass §\n", "foobared"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\n§\n-----END OPENSSH PRIVATE KEY-----", BASE64),
    ("key: '-----BEGIN RSA PRIVATE KEY-----\\n§\\n-----END RSA PRIVATE KEY-----'", BASE64),
    ("[rank0] -----BEGIN PGP PRIVATE KEY BLOCK-----\n[rank0] §\n[rank0] -----END PGP PRIVATE KEY"
     " BLOCK-----", "lQOYBGVx"),
    ("PrivateKey = §", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="),
    ("ann:§:19000:0:99999:7:::", "$6$abcdefgh$1234567890abcdefghij"),
    # URLs
    ("https://ann:§@idx.example/simple", "p@ss/w0rd"),
    ("postgresql://ann:§@db:5432/x", SHORT),
    ("https://§@github.example/ann/x.git", MIXED),
    ("https://a.blob.example/c?sv=2024&se=2027&sig=§", "aB3%2Fxyz%3D"),
    ("https://b.s3.example/o?X-Amz-Date=2026&X-Amz-Signature=§", HEX * 2),
    ("GET /cb?code=§&state=1", WORD),
    ("GET /v1?access_token=§ HTTP/1.1", WORD),
    ("https://hooks.slack.com/services/§", "T0123/B0456/zXcVbN"),
    ("https://discord.com/api/webhooks/§", "12345/abcDEF-ghi"),
    ("https://api.telegram.org/bot§/getMe", "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"),
    # forms
    ("got §", "hf_" + "aBcDeFgHiJkLmNoPqRsT"),
    ("got §", "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"),
    ("got §", "github_pat_" + "11AAAAAAA0abcdefghijkl_mnop"),
    ("got §.", "glpat-" + "x1Y2z3A4b5C6d7E8f9G0"),
    ("got §", "sk-" + "proj-a1B2c3D4e5F6g7H8i9J0"),
    ("got §", "sk-ant-" + "api03-a1B2c3D4e5F6g7H8i9J0"),
    ("got §", "xoxb-" + "123456789012-abcdefABCDEF"),
    ("got §", "AKIA" + "Q3EXAMPLE7XYZ2AB"),
    ("got §", "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"),
    ("got §", "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0.c2lnbmF0dXJl"),
    ("got §", "npm_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"),
    ("got §", "pypi-" + "AgEIcHlwaS5vcmcCJGE1b2"),
    ("got §", "SG." + "a1B2c3D4e5F6g7H8i9J0kl.m3N4o5P6q7R8s9T0u1V2"),
    ("got \\n§", "dckr_pat_" + "a1B2c3D4e5F6g7H8i9J0"),
    ("secret: §", BASE64),
    ("printed without a name: §", BASE64),
    # said, and in tables
    ("password is §", SHORT),
    ("Password for ann: §", SHORT),
    ("login failed for ann with password '§'", SHORT),
    ("VAULT_TOKEN    §", "s.abcdefghijklmnop"),
    ("| token | § |", "abc-def-ghi"),
    ("SecretStr('§')", "abc-def-ghi"),
    ("CREATE USER ann IDENTIFIED BY '§';", SHORT),
    ("args: --api-key\n§", "abc-def-ghi"),
    ("wandb login §", HEX),
    ("S3: § of ann", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("your new password is: §", "swordfish"),
    ("Your password is §", "swordfish"),
    ("Password for 'https://ann@git.example': §", "swordfish"),
    ("| password | § |", "swordfish"),
    ("ALTER USER ann WITH PASSWORD '§';", SHORT),
    ('ALTER USER ann IDENTIFIED BY "§"', SHORT),
    ("密码：§", SHORT),
    ("Passwort: §", "swordfish"),
    ("printed without a name: §", "Zk3vQ9xLm2TtB8wYc1Rd"),
    # names and values without a sign between them, and calls
    ("ENV DB_PASSWORD §", "swordfish"),
    ("setenv DB_PASSWORD §", "swordfish"),
    ("mpirun -genv DB_PASSWORD § train.py", "swordfish"),
    ('{"k":"DB_PASSWORD","v":"§"}', "swordfish"),
    ('smtp.login("ann", "§")', "swordfish"),
    ('requests.get(u, auth=("ann", "§"))', "swordfish"),
    ("auth=HTTPBasicAuth('ann', '§')", "swordfish"),
    # of shells
    ("['mysql', '-u', 'root', '-p§', 'db']", SHORT),
    ("export DB_PASS='it'\\''s §'", "swordfish"),
    ('curl -u "ann":"§" https://x.example', "swordfish"),
    ("echo § | docker login -u ann --password-stdin", "swordfish"),
    ('password="§"', "12345"),
    ("train.py --password §", "12345"),
    # behind what a terminal does not show
    ("\x1b[31mtoken\x1b[0m=\x1b[1m§\x1b[0m", WORD),
    ("to\x1b[0mken=§", WORD),
    ("hf_\x1b[1m§\x1b[0m", "aBcDeFgHiJkLmNoPqRsT"),
    ("'\\x1b[32mtoken\\x1b[0m: §'", WORD),
    ("pass\u200bword=§", SHORT),
)  # fmt: skip

HEALTHY = """\
2026-11-24 10:00:00 [rank3] epoch 2 step 1200 loss 0.3125 lr 1e-4 grad_norm 0.51 tokens/s 10432.1
{'loss': 1.2, 'learning_rate': 5e-05, 'num_tokens': 131072.0, 'mean_token_accuracy': 0.71}
tokens: 4096, max_tokens=512, pad_token='</s>', eos_token_id=2, num_key_value_heads: 8
special tokens have been added in the vocabulary; token_type_ids=[0, 0, 1]
<All keys matched successfully>
Missing key(s) in state_dict: "layer.0.weight", "layer.0.bias". unexpected keys: []
KeyError: 'layer.weight'
  File "/opt/x/torch/nn/modules/module.py", line 1511, in _wrapped_call_impl
    key = self.key_proj(hidden_states)
    for key, value in state_dict.items():
    tokens = tokenizer(text, return_tensors="pt")
RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x16 and 32x64)
frame #3: c10::detail::torchCheckFail _ZN3c106detail14torchCheckFailEPKcS2_jRKSs + 0x5c
AutoModelForSeq2SeqLM, DistributedDataParallel, Qwen2ForCausalLM
forward pass: 12.5 ms, backward pass: 31 ms; 3 tests passed: fine; PASSED
author: the Torch team; authors=3
Permission denied (publickey,password).
host key of node01: SHA256:uNiVztksCsDhcc0u9e8BrQXVUQDpzvAMlHZiFoVwhxk
sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
torch 2.13.0+cpu, Python 3.11.7, Linux-6.1.0-18-amd64-x86_64-with-glibc2.36
models--Qwen--Qwen2.5-7B/snapshots/a09a35458c702b33eeacc393d103063234e8bc28
TOKENIZERS_PARALLELISM=false HF_TOKEN=None use_auth_token=True
mpirun -n 4 -ppn 2 -hosts node01,node02 -genv OMP_NUM_THREADS 8 python train.py -p 29500
Ranks 4, 5 failed to pass monitoredBarrier in 2000000 ms
mkdir -p out/checkpoints && ssh -p 2222 node01
[proxy:0:1@node02] main (pm/pmiserv/pmip.c:181): unable to connect to server node01 at port 41849
==================================================================================
----------------------------------------------------------------------
NET-004  node02: the default route is on eth1, not eth0
host key of node02: SHA256:eXIpUYT9aAb/oT7SOZYpJ5AEm+cCh6Lo2HdRRyzB6Hs
password is required
password is incorrect
the password is too short; HF_TOKEN is not set; WANDB_API_KEY not configured
login01: HEAD is now at 227927600663dea60fba2ef47a78fdbb24c1553f
echo "epoch 1" | grep stdin
Set environment variable HF_TOKEN to access gated models, config token limit 4096
10.0.0.1:29500:eth0:up:1
run 20261124-100000-a1b2c3 exited with code 0: 4 of 4 ranks ok
"""
