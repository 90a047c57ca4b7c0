"""Test which texts the import treats as credentials, and which texts it leaves unchanged."""

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
        *((name, "abc") for name in ("AK", "SK", "OSS_SK", "ALIBABA_AK", "my-ak", "OSS_ACCESS_ID", "--ak", "--sk")),
        *((name, "abc") for name in ("--access-id", "--access-key", "--username", "cosSecretId", "USER_NAME", "AKID")),
        ("DB_PASSWORD", "123456"),
        ("PROXY", "me:pw1@proxy.example.com:3128"),
        ("PROXY", "//me:pw1@example.com/x"),
        ("SOURCE", "redis://:p/w@cache:6379"),
        ("SOURCE", "https://me:p;w@example.com"),
        ("SOURCE", "https://me:hunter2hunter2"),
        ("ANY", "wJalrXUtn2FEMIK7MDENGbPxRfi9CYEXAMPLEKEY"),
        ("ANY", "x7q+wJalr8UtnFEMIK7MDENG/bPxRfi9YzEXAMPL"),
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
        ("MAX_TOKENS", "123456"),
        ("RISK", "abc"),
        ("IMAGE", f"example.com:5000/a/b:1@sha256:{'0' * 64}"),
        ("MAIL", "mailto:me@example.com"),
        ("INIT", "tcp://10.0.0.1:29500"),
        ("SOURCE", "https://example.com:8443/x"),
        ("SOURCE", "https://me:$PASSWORD@example.com/x"),
        ("IMAGE", "docker://ubuntu:jammy-20240212"),
        ("COMMIT", "2d991ba0c1e2f3a4b5c6d7e8f90123456789abcd"),
        ("FOLDER", "/data/ResNet50ImageNet2012TrainV2"),
        ("MODEL", "meta-llama/Meta-Llama-3.1-8B-Instruct"),
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


@pytest.mark.parametrize(
    "line",
    [
        *("mc alias set s3 https://a.b k1 k2", "/opt/mc config host add s3 http://a:9000 k1 k2", "wandb login k1"),
        *("aws configure set aws_secret_access_key k1", "docker login -u me -p k1", "docker login -pk1 a.b"),
        *("mysql -pk1 -e x", "redis-cli -a k1", "lftp -u me,k1 a.b", "sshpass -p k1 ssh a", "curl -sSu me:k1 a.b"),
        *("huggingface-cli login --token k1", "poetry config http-basic.a me k1", "htpasswd -b f me k1"),
        *("rclone config create a s3 secret k1", "kubectl create secret generic a --from-literal=b=k1"),
    ],
)
def test_argument_of_a_command_that_logs_in_is_a_credential(line: str) -> None:
    for words in (line.split(), ["bash", "-c", f"cd /x && {line}; python a.py"], ["sh", "-c", f'bash -c "{line}"']):
        found, variables = Credentials("run-credentials").words(words)

        assert "k1" not in " ".join(found)
        assert "k2" not in " ".join(found)
        assert variables
        assert "k1" not in hidden(" ".join(words))


@pytest.mark.parametrize(
    "script",
    [
        *("echo k1234567 | docker login --password-stdin", "printf '%s' k1234567 >> ~/.netrc", "tool <<< $TOKEN"),
        *("cat > ~/.pgpass <<EOF\ndb:5432:a:me:k1234567\nEOF", "docker login --password-stdin <<< k1234567"),
        *("setenv HF_TOKEN k1234567", 'TOKEN=a"k1234567"', "TOKEN=$'k1234567'", ": ${TOKEN:=k1234567}"),
        *("OPTIONS=(-u me:k1234567)", "OPTIONS='-u me:k1234567'", "python -c \"wandb.login('k1234567')\""),
        *(
            "sed -i 's/@TOKEN@/k1234567/' f",
            "kinit me <<< k1234567",
            "echo k1234567 | sudo -S ls",
            "openssl enc -k k1234567",
        ),
        *("ftp -n a.b <<EOF\nuser me k1234567\nEOF", 'echo \'{"name": "TOKEN", "value": "k1234567"}\''),
        "echo '<name>fs.s3a.secret.key</name><value>k1234567</value>'",
        *("a # k1234567", "# the password is k1234567\na", "echo machine a.b login me password k1234567"),
    ],
)
def test_credential_in_a_script_is_taken_out(script: str) -> None:
    [*_, found], _ = Credentials().words(["bash", "-c", script])

    assert "k1234567" not in found


@pytest.mark.parametrize(
    "line",
    [
        *("docker run -u 1000 -p 80:80 a/b", "aws s3 sync s3://a /b --region eu-west-1", "mc cp s3/a b", "wandb login"),
        *("git clone git@github.com:a/b.git", "git config user.name me", "pip install torch==2.1", "zip -r a.zip b"),
        *("curl -fsSL https://a.b/c -o d", "mysql -h db -e x", "python -u a.py --lr 1", "echo done > log"),
        *("echo $TOKEN | docker login --password-stdin", "wandb login $KEY", "tokenizer train a.txt", "mc ls # a"),
        *("cat > a.conf <<EOF\n# x\na b\nEOF", "docker login -u $NAME -p ${PASSWORD}", "redis-cli -a $(cat /run/a) x"),
    ],
)
def test_usual_command_stays(line: str) -> None:
    found, variables = Credentials().words(["bash", "-c", line])

    assert found[2] == line.removesuffix(" # a")
    assert variables == []


def test_credential_between_command_and_args_of_a_container_is_taken_out() -> None:
    found = Credentials().container({"command": ["wandb"], "args": ["login", "k1234567"]})

    assert (found["command"], found["args"]) == (["wandb"], ["login", "$(LOGIN)"])
    assert [each["name"] for each in found["env"]] == ["LOGIN"]


def test_value_behind_a_short_option_names_no_key() -> None:
    credentials = Credentials()
    credentials.words(["tool", "-pmysecret", "x"])

    assert credentials.keys == ["CREDENTIAL"]
