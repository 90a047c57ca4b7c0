"""Make random sources in every format.

The sources contain credentials. For some, only a variable's or option's name shows that the value is a credential; for
others, no name does.
"""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable
from typing import Any

from distrain.yaml import yaml_writer
from tests.plugin.imports.drafts import Job, mpi_job, pods, pytorch_job
from tests.plugin.imports.jobset_drafts import jobset, pod_of, replicated, runtime, trainjob

# Each credential of these tests contains this text, and no other text contains it.
MARK = "Zq7h"
# Commands that log in. Each {} is replaced by a credential.
LOGINS = (
    *("mc alias set s3 https://s3.example.com {} {}", "mc config host add s3 https://s3.example.com {} {}"),
    *("/opt/bin/mc --json alias set s3 http://minio:9000 {} {} --api S3v4", "mcli alias set s3 http://minio {} {}"),
    *("aws configure set aws_secret_access_key {}", "aws --profile a configure set aws_access_key_id '{}'"),
    *("wandb login {}", "wandb login --relogin {}", 'wandb login "{}"', "sudo -E wandb login --host https://w.io {}"),
    *("docker login -u me -p {} reg.example.com", "docker login --username me --password={}", "podman login -p{} a"),
    *("mysql -p{} -e x", "mysql -h db -u root -p'{}' x", "mysqldump --password={} x", 'mysql "-p{}" x'),
    *("redis-cli -a {} ping", "redis-cli -h r AUTH {}", "redis-cli -u redis://me:{}@r"),
    *("lftp -u user,{} ftp.example.com", "sshpass -p {} scp a b", "sshpass -p{} ssh a", "smbclient -U me%{} //a/b"),
    *("huggingface-cli login --token {}", "hf auth login --token {}", "huggingface-cli login {}"),
    *("curl -u me:{} https://example.com", "curl -sSfLu me:{} https://example.com", "curl --user=me:{} a.example.com"),
    *("curl -H 'Authorization: Bearer {}' a.example.com", "curl -H 'X-Api-Key: {}' a.example.com"),
    *("curl --oauth2-bearer {} a.example.com", "wget --user me --password {} https://example.com"),
    *("ossutil config -e oss.example.com -i {} -k {}", "ossutil64 cp a oss://b -i {} -k {}"),
    *("s3cmd --access_key={} --secret_key={} ls", "rclone config create a s3 access_key_id {} secret_access_key {}"),
    *("git clone https://me:{}@git.example.com/a.git", "git clone https://{}@git.example.com/a.git"),
    *("git config --global http.extraheader '{}'", "rsync -a me:{}@host::module .", "npm config set _authToken {}"),
    *("pip install --index-url https://me:{}@pypi.example.com/simple a", "poetry config http-basic.a me {}"),
    *(
        "az login --service-principal -u me -p {}",
        "vault login {}",
        "kubectl create secret generic a --from-literal=b={}",
    ),
    *("psql postgres://me:{}@db/a", "mongosh -u me -p {} db", "ldapsearch -w {} -x"),
    *("tool --ak {} --sk {}", "tool --access-id={} --access-key={}", "tool --username {} --password {}"),
    *("unzip -P {} a.zip", "7z x -p{} a.7z", "twine upload -u me -p {} a"),
)
# Commands that contain a credential and syntax of the shell, such as a pipe.
OF_SHELL = (
    *("echo {} | docker login --password-stdin", "echo '{}' | huggingface-cli login", "printf '%s' {} > ~/.netrc"),
    *("echo machine a.example.com login me password {} >> ~/.netrc", "docker login --password-stdin <<< {}"),
    *("cat > ~/.pgpass <<EOF\ndb:5432:a:me:{}\nEOF", "cat <<'X' > /tmp/token\n{}\nX", "setenv HF_TOKEN {}"),
    *("TOKEN=a'{}'b tool", ": ${{TOKEN:={}}}", "OPTIONS=(-u me:{})", "OPTIONS='-u me:{}'", "TOKEN=$'{}' tool"),
    *("python -c \"wandb.login('{}')\"", "python -c 'login(token=\"{}\")'", "eval 'export TOKEN={}'"),
    "PGPASSWORD={} psql -h db",
)
# Names of variables. Only the name of such a variable, or the form of its value (URLS), shows that the value is a
# credential.
NAMES = (
    *("OSS_SK", "ALIBABA_AK", "AK", "SK", "MY_AK", "S3_SK", "OSS_ACCESS_ID", "OSS_ACCESS_KEY", "ALIYUN_AK_ID", "AKID"),
    *("HF_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "S3_SECRET", "POSTGRES_USER_NAME", "USERNAME", "cosSecretId"),
)
URLS = (
    *("https://me:{}@example.com/x", "redis://:{}@cache:6379/0", "ftp://me:{}@example.com", "s3://{}:{}@bucket/x"),
    *("jdbc:mysql://db/x?user=me&password={}", "https://{}@git.example.com/x", "me:{}@proxy.example.com:3128"),
    *("postgresql+psycopg2://me:{}/x@db", "https://me:{};x@example.com", "//me:{}@example.com/x"),
)
FLAGS = ("ak", "sk", "access-id", "access-key", "username", "token", "api-key", "oss_sk", "secret-id")


class Planter:
    """Makes random credentials, and texts that contain them. The same seed makes the same texts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def secret(self) -> str:
        """Return a random credential with digits, perhaps also with a punctuation mark.

        Shells and URLs treat this mark as plain text.
        """
        letters = "abcdefghkmnpqrstuvwxyzABCDEFGHKMNPQRSTUVWXYZ23456789"
        middle = "".join(self.random.choices(letters, k=self.random.randint(5, 40)))
        sign = self.one("", "", *"+._-/=@!:", "%2F")
        return f"{self.one('', 'a', '9', 'pass', 'key-')}{MARK}{middle}{sign}7x"

    def filled(self, form: str) -> str:
        return form.format(*(self.secret() for _ in range(form.count("{}"))))

    def url(self) -> str:
        return self.filled(self.one(*URLS))

    def env(self) -> dict[str, str]:
        found = {name: self.secret() for name in self.random.sample(NAMES, 3)}
        return {**found, "SOURCE": self.url(), "OPTIONS": f"--{self.one(*FLAGS)}={self.secret()}"}

    def variables(self) -> list[Job]:
        return [{"name": name, "value": value} for name, value in self.env().items()]

    def commands(self) -> list[str]:
        """Return shell commands that log in, or that assign credentials to variables."""
        found = [self.filled(form) for form in self.random.sample((*LOGINS, *OF_SHELL), 4)]
        return [*found, *(f"export {name}={shlex.quote(value)}" for name, value in self.env().items())]

    def program(self, start: str = "python a.py") -> str:
        flags = [f"--{name}{self.one('=', ' ')}{self.secret()}" for name in self.random.sample(FLAGS, 2)]
        return f"{start} {' '.join(flags)} -u me:{self.secret()} --from '{self.url()}'"

    def script(self, start: str) -> str:
        """Return a script with a comment, with commands before the program, and with commands after the program."""
        before, behind = self.commands(), self.commands()
        comment = f"# {self.secret()} is {self.secret()}"
        join = self.one("\n", " && ") if self.random.random() < 0.8 else "\n"
        ended = [f"for i in 1 2; do {behind[0]}; done"] if self.random.random() < 0.2 else behind[:2]
        return "\n".join([comment, join.join(before), f"{self.program(start)}  {comment}", *ended])

    def container(self, start: str) -> Job:
        """Return the fields of a container that runs the program: its command or script, and its variables."""
        words = self.one(
            lambda: {"command": shlex.split(self.program(start))},
            lambda: {"command": ["bash", "-c", self.script(start)]},
            lambda: {"command": ["sh", "-ec"], "args": [self.script(start)]},
        )()
        return {**words, "env": self.variables()}

    def beside(self, name: str) -> Job:
        """Return a sidecar or an init container that uses credentials in its command or script.

        A sidecar may also use credentials in its probe and in its postStart hook.
        """
        words = shlex.split(self.filled(self.one(*LOGINS)))
        probe = {"exec": {"command": words}} if self.random.random() < 0.3 else {"httpGet": self._header()}
        more = {"livenessProbe": probe, "lifecycle": {"postStart": probe}} if name == "sidecar" else {}
        start = {"command": words} if self.random.random() < 0.5 else {"command": ["sh", "-c", self.script("fetch")]}
        return {"name": name, "image": "tool:1", **start, "env": self.variables(), **more}

    def _header(self) -> Job:
        return {"port": 80, "httpHeaders": [{"name": "Authorization", "value": self.secret()}]}

    def put_beside(self, pod: Job) -> None:
        pod["initContainers"] = [self.beside("before")]
        pod["containers"] = [*pod["containers"], self.beside("sidecar")]

    def annotations(self) -> dict[str, str]:
        return {**self.env(), "docker": json.dumps({"auths": {"a": {"auth": self.secret()}}})}

    def pytorch(self) -> str:
        job = pytorch_job(self.container("torchrun a.py"))
        for role in ("Master", "Worker"):
            self.put_beside(pods(job, role))
        job["metadata"]["annotations"] = self.annotations()
        return yaml_writer.dump(job)

    def mpi(self) -> str:
        job = mpi_job(self.container("mpirun -np 2 --tool-key x python a.py"), {"env": self.variables()})
        self.put_beside(pods(job, self.one("Launcher", "Worker")))
        pods(job, "Worker")["containers"][0]["livenessProbe"] = {"exec": {"command": ["mysql", f"-p{self.secret()}"]}}
        return yaml_writer.dump(job)

    def jobset(self) -> str:
        found = replicated("workers", self.container("torchrun a.py"))
        self.put_beside(pod_of(found))
        return yaml_writer.dump(jobset(found))

    def trainjob(self) -> str:
        fields = self.container("torchrun a.py")
        return yaml_writer.dump(trainjob(fields), runtime())

    def slurm(self) -> str:
        exports = ",".join(f"{name}={value}" for name, value in self.env().items() if name in NAMES)
        options = [
            "#SBATCH -N 2 --gpus-per-node=1",
            f"#SBATCH --export=ALL,{exports}",
            f"#SBATCH --{self.one('comment', 'unknown')}={self.secret()} {self.secret()} # {self.secret()}",
        ]
        after = f"#SBATCH --comment {self.secret()} -p{self.secret()} {self.secret()}"
        return "\n".join(["#!/bin/bash", *options, *self.commands(), after, self.script("srun python a.py"), ""])

    def unclosed(self) -> str:
        return (
            f"#!/bin/bash\n#SBATCH -N 2\n#SBATCH --comment='{self.secret()} -p{self.secret()} {self.secret()}\nsrun a\n"
        )

    def arena(self) -> str:
        env = [f"--env={name}={value}" for name, value in self.env().items()]
        marks = [f"--{flag}={name}={value}" for flag in ("label", "annotation") for name, value in self.env().items()]
        odd = [f"--unknown={self.secret()}", "--other", self.secret(), f"--sync-source={self.url()}"]
        odd += ["--running-timeout", f"2h {self.secret()}"]
        words = ["arena", "submit", "mpijob", "--name=a", "--image=a/b:1", *env, *marks, *odd]
        line = shlex.join([*words, f"mpirun -np 2 {self.program()}"])
        return "\n".join([*self.commands(), line, *self.commands(), ""])

    def ksonnet(self) -> str:
        line = f"mpiexec -np 2 -x OSS_SK={self.secret()} {self.program()}"
        odd = f"{self.secret()} --unknown {self.secret()} --init {shlex.quote(self.commands()[0])}"
        made = f"ks generate openmpi a --image a/b:1 --secret s --workers 2 {odd} --exec {shlex.quote(line)}"
        return "\n".join([*self.commands(), made, f"ks param set a unknown {self.secret()}", *self.commands(), ""])

    def ffdl(self) -> str:
        connection = {"user_name": self.secret(), "password": self.secret(), "other": self.secret()}
        store = {"type": "mount_cos", "training_data": {"container": "d"}, "connection": connection}
        framework = {"name": "pytorch", "version": "1", "command": self.script("python a.py")}
        more = {"description": self.secret(), "token": self.secret()}
        stores = [store, {**store, "type": self.secret()}]
        return yaml_writer.dump({"learners": 1, "data_stores": stores, "framework": framework, **more})

    def horovod(self) -> str:
        image = {"repository": "a/b", "tag": "1"}
        line = f"mpirun -np 2 -x OSS_AK={self.secret()} -x SOURCE={self.url()} {self.program()}"
        roles = {
            "worker": {"number": 2, "image": image, "env": self.env()},
            "master": {"image": image, "env": self.env(), "args": [line], "extra": self.secret()},
        }
        return yaml_writer.dump({**roles, "annotations": self.annotations(), "unknown": {"user": self.secret()}})


FORMATS: dict[str, Callable[[Planter], str]] = {
    "PyTorchJob": Planter.pytorch,
    "MPIJob": Planter.mpi,
    "JobSet": Planter.jobset,
    "TrainJob": Planter.trainjob,
    "Slurm": Planter.slurm,
    "quote that is not closed": Planter.unclosed,
    "arena": Planter.arena,
    "ksonnet": Planter.ksonnet,
    "FfDL": Planter.ffdl,
    "stable/horovod": Planter.horovod,
}
