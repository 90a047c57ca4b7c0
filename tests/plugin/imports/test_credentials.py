"""Test which texts the import treats as credentials, and which it keeps."""

from __future__ import annotations

import pytest

from distrain.imports.credentials import Credentials, hidden, is_credential


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("AWS_ACCESS_KEY_ID", "AKIA0000"),
        ("wandbApiKey", "topsecret"),
        ("HF_TOKEN", "x"),
        ("hftoken", "x1"),
        ("DB_PASSWORD", "hunter2"),
        ("--passphrase", "a b"),
        ("MINIO_ROOT_USER", "minio"),
        ("GIT_CREDENTIALS", "x:y"),
        ("KAGGLE_KEY", "0a1b2c3d4e5f"),
        ("NETRC", "machine a.b login me password hunter2"),
        ("GITHUB_PAT", "0a1b2c3d4e5f"),
        ("DB_PW", "hunter2"),
        ("DATABASE", "postgres://me:pw@db/x"),
        ("SOURCE", "https://b.s3.example.com/x?X-Amz-Signature=abc"),
        ("ANY", "hf_abcdefghijk"),
        ("ANY", "-----BEGIN RSA PRIVATE KEY-----"),
    ],
)
def test_credential_is_known_by_its_name_or_form(name: str, value: str) -> None:
    assert is_credential(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("--tokenizer", "bert-base-uncased"),
        ("MAX_TOKENS", "2048"),
        ("--max-tokens", "2048"),
        ("S3_SECRET_NAME", "s3-credentials"),
        ("TOKEN_FILE", "/run/token"),
        ("--label-key", "species"),
        ("--sort-keys", "true"),
        ("HF_TOKEN", "$(HF_TOKEN)"),
        ("PASSWORD", "${PASSWORD}"),
        ("USER", "root"),
        ("KEYBOARD", "de"),
        ("SOURCE", "https://example.com/set?version=3"),
        ("MONKEY", "business1"),
        ("HF_TOKEN", "$(cat /run/token)"),
        ("HF_TOKEN", "${HF_TOKEN:-}"),
        ("AUTHORIZATION", "Bearer $TOKEN"),
        ("KRB_KEYTAB", "/etc/krb5.keytab"),
        ("--patience", "5"),
        ("--api", "functional"),
        ("--api", "v2.1"),
        ("--pat", "*.jpg"),
        ("--tok", "bert-base-uncased"),
        ("SOURCE", "abfss://set@account.dfs.core.windows.net/digits"),
        ("SOURCE", "https://git@example.com/x.git"),
        ("PWDS_SEEN", "abc1"),
    ],
)
def test_usual_variable_and_option_stays(name: str, value: str) -> None:
    assert not is_credential(name, value)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["a.py", "--token", "t0p"], ["a.py", "--token", "$(TOKEN)"]),
        (["a.py", "--api-key=t0p"], ["a.py", "--api-key=$(API_KEY)"]),
        (["sh", "-c", "export TOKEN=t0p && a --x"], ["sh", "-c", "export TOKEN=$(TOKEN) && a --x"]),
        (["sh", "-c", 'a --password "t 0 p" b'], ["sh", "-c", 'a --password "$(PASSWORD)" b']),
        (
            ["bash", "-lc", "cd /w && a.py --api-key sk-t0p0123456789abcd -x"],
            ["bash", "-lc", "cd /w && a.py --api-key $(API_KEY) -x"],
        ),
        (["sh", "-c", "wget https://me:t0p@a.b/c.tgz && a"], ["sh", "-c", "wget $(SECRET_URL) && a"]),
        (
            ["sh", "-c", "echo 'x-----BEGIN A PRIVATE KEY-----\nt0p\n-----END A PRIVATE KEY-----' | a"],
            ["sh", "-c", "echo 'x$(CREDENTIAL)' | a"],
        ),
        (["a", "--password=t0p,x;y"], ["a", "--password=$(PASSWORD)"]),
        (
            ["sh", "-c", "mount -o user=me,password=t0p,ro x"],
            ["sh", "-c", "mount -o user=me,password=$(PASSWORD),ro x"],
        ),
        (["sh", "-c", 'a --password "t\\"0p z" b'], ["sh", "-c", 'a --password "$(PASSWORD)" b']),
        (["sh", "-c", "TOKEN=${TOKEN:-t0p} a"], ["sh", "-c", "TOKEN=${TOKEN:-$(TOKEN)} a"]),
        (["curl", "-u", "me:t0p", "x"], ["curl", "-u", "$(LOGIN)", "x"]),
        (["sh", "-c", "curl -u me:t0p x"], ["sh", "-c", "curl -u $(LOGIN) x"]),
        (["curl", "-H", "Authorization: Bearer t0p"], ["curl", "-H", "Authorization: $(AUTHORIZATION)"]),
    ],
)
def test_credential_in_a_command_becomes_a_variable_of_the_secret(words: list[str], left: list[str]) -> None:
    credentials = Credentials("run-credentials")

    found, variables = credentials.words(words)

    assert found == left
    [key] = credentials.keys
    assert variables == [{"name": key, "valueFrom": {"secretKeyRef": {"name": "run-credentials", "key": key}}}]


def test_credential_that_another_place_names_is_taken_out_too() -> None:
    credentials = Credentials("run-credentials")
    credentials.env({"name": "HF_TOKEN", "value": "t0p-of-the-team"})

    found, variables = credentials.words(["a.py", "--first", "x=t0p-of-the-team"], {"HF_TOKEN"})

    assert found == ["a.py", "--first", "x=$(HF_TOKEN_ARGUMENT)"]
    assert [each["valueFrom"]["secretKeyRef"]["key"] for each in variables] == ["HF_TOKEN"]
    assert credentials.holds("t0p-of-the-team")


def test_two_credentials_of_one_name_get_two_keys() -> None:
    credentials = Credentials()

    keys = [credentials.key("token", value) for value in ("first-one", "second-one", "first-one")]

    assert keys == ["TOKEN", "TOKEN_2", "TOKEN"]


def test_message_hides_a_credential() -> None:
    assert hidden("mpirun -x HF_TOKEN=abc python") == "mpirun -x HF_TOKEN=[hidden] python"
