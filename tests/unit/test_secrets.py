"""Secrets in texts: what looks like a live credential is found, what only talks about one is not."""

import re
import time

import pytest

from compose.feeds.secrets import entropy, find_secrets, secret_kinds

# Credentials are put together here so that no scanner of this repository takes them for real ones.
AWS = "AKIA" + "Q3EGRIPZ7XK2M5LD"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
JWT = ".".join(("eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N"))
HEX = "9f86d081884c7d659a2feaa0c55ad015"

FOUND = [
    (f"the deploy user has {AWS} in its profile", "AWS access key"),
    (f"aws_secret_access_key = {'wJalrXUtnFEMI' + '/K7MDENG/bPxRfiCYzzzz9KEY'}", "value of a secret"),
    (f"push with {GITHUB}", "GitHub token"),
    ("github_pat_" + "11ABCDEFG0abcdefghijkl_0123456789", "GitHub token"),
    ("glpat-" + "x9Yz8Wv7Ut6Sr5Qp4On3", "GitLab token"),
    ("xoxb-" + "123456789012-abcdefGHIJKL", "Slack token"),
    ("https://hooks.slack.com/services/" + "T0AAAA/B0BBBB/abcdefgh12345678", "Slack webhook"),
    ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "Stripe key"),
    ("sk-proj-" + "abcDEF123456ghiJKL789012", "API key"),
    ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "Google API key"),
    (f"cookie {JWT}", "JSON web token"),
    (f"Authorization: Bearer {HEX}", "credential in a header"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE", "private key"),
    ("-----BEGIN PRIVATE KEY-----", "private key"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----", "private key"),
    ("password=hunter22", "value of a password"),
    ("password=correcthorse", "value of a password"),
    ('db_password: "Tr0ub4dor"', "value of a password"),
    ("DB_PASSWORD=s3cr3t-p4ss", "value of a password"),
    ('{"dbPassword": "Tr0ub4dor&3"}', "value of a password"),
    ("the password: xk7Qp2vv", "value of a password"),
    ("mongodb://admin:hunter2@db.internal/orders", "password in an address"),
    ("mysql://root:toor@10.0.0.5:3306/shop", "password in an address"),
    ("postgresql+asyncpg://app:p%40ss@db/app", "password in an address"),
    ("redis://:s3cret@cache:6379/0", "password in an address"),
    ("client_secret=8a7b6c5d4e3f2a1b", "value of a secret"),
    ("clientSecret: '8a7b6c5d4e3f2a1b'", "value of a secret"),
    (f"api_key={HEX}", "value of a secret"),
    (f"X-Api-Key: {HEX}", "value of a secret"),
    ("access_token = 'ya29A0ARrdaM8x9kq2LmN'", "value of a secret"),
    ("key=Zk9xQ2w8Lm4Pn7Rt1Vb6Yc", "value of a secret"),
    (f"secret: password={'aB3' * 4}", "value of a secret"),
]

CLEAN = [
    "dependency injection setup for the worker",
    "exploit locality of reference in the cache",
    "the hiring page footer overlaps",
    "a private keyboard and a public one",
    "password: field label is cut off on small screens",
    "Password: required",
    "add a password field with a label",
    "password = getpass.getpass()",
    "password=os.environ['DB_PASSWORD']",
    "password=${DB_PASSWORD}",
    "password=<your password>",
    "password=********",
    "password: str",
    "password=None",
    "password=self.password",
    "the token is opaque: give it back as min_token",
    "max_tokens=1500",
    "token: str | None = None",
    "token = request.headers.get('authorization')",
    "secret: SecretStr",
    "secret santa: draw lots on Friday",
    "postgres://app:${DB_PASSWORD}@db/app",
    "postgres://user:<password>@host/db",
    "see http://127.0.0.1:8420/v1/events and mailto:a@b.org",
    "https://example.org:8443/@scope/package",
    "a bearer token is (tenant, principal, rights)",
    "Authorization: Bearer $CORTEX_TOKEN",
    "commit 1e29a81849ee72fde6cf645ef170c5e826caa4d0 broke it",
    "cherry picked from 53fdbd0159990dc5497f597913be2f5bcc353d86",
    "key: tenant/subject",
    "key=lambda secret: (secret.start, secret.end)",
    "primary key: (tenant, source, id)",
    "sk-learn and sk-estimators-are-wrapped-in-pipelines",
    "pass: 12 tests, fail: 0",
    "the public key begins with -----BEGIN PUBLIC KEY-----",
    "keyboard=querty-layout-switching-1984",
    "monkey=12345678901234567890abcdef",
    "token bucket: 100 requests a second",
    "compass: 240 degrees, bypass=enabled-for-admins",
    "",
]


@pytest.mark.parametrize(("text", "kind"), FOUND)
def test_a_live_credential_is_found_with_its_kind(text, kind):
    assert secret_kinds(text) == (kind,)


@pytest.mark.parametrize("text", CLEAN)
def test_what_only_talks_about_secrets_is_let_through(text):
    assert find_secrets(text) == ()


def test_the_span_covers_the_secret_and_the_find_does_not_carry_it():
    text = f"first {AWS}, then password=hunter22!"
    first, second = find_secrets(text)
    assert text[first.start : first.end] == AWS
    assert text[second.start : second.end] == "hunter22!"
    assert not any(part in f"{first}{second}" for part in (AWS, "hunter22"))


def test_one_place_counts_once():
    assert len(find_secrets(f"github_token={GITHUB}")) == 1


def test_entropy_is_bits_a_character():
    assert entropy("") == 0
    assert entropy("aaaa") == 0
    assert entropy("abcd") == 2  # four equally likely characters


@pytest.mark.parametrize("piece", ["password=", "a_", "eyJ", "x://y:", "key:key:", "-----BEGIN ", "a." * 3, "= "])
def test_no_text_makes_it_slow(piece):
    """Time grows with the text, not with its square: four times as long takes nowhere near sixteen times."""
    seconds = []
    for length in (20_000, 80_000):
        text = (piece * (length // len(piece) + 1))[:length]
        start = time.process_time()
        find_secrets(text)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 10 * seconds[0] + 0.2


def test_this_file_holds_no_whole_credential():
    assert not re.search(r"AKIA[A-Z0-9]{16}|ghp_[A-Za-z0-9]{36}", open(__file__).read())  # noqa: PTH123, SIM115
