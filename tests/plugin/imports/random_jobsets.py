"""Make random TrainJobs with runtimes, JobSets and MPIJobs v1alpha1.

The pods are made with random_jobs.py.
"""

from __future__ import annotations

from tests.plugin.imports.random_jobs import Job, Maker

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


class SetMaker(Maker):
    """Makes random TrainJobs, JobSets and MPIJobs v1alpha1."""

    def trainjob(self) -> Job:
        """Return a TrainJob that contains its runtime under the key `runtime`. The import reads both in this form."""
        is_mpi, has_program = self.one(True, False), self.one(True, False)
        names = ("node", "launcher") if is_mpi else ("node",)
        jobs = [self._replicated(name, "trainer" if name == names[-1] else "") for name in names]
        main = jobs[-1]["template"]["spec"]["template"]["spec"]["containers"][0]
        trainer = self.some({"numNodes": lambda: self.one(1, 4), "numProcPerNode": lambda: 2})
        if has_program:
            # If the TrainJob overrides a field of the runtime, the import neither carries over nor lists the runtime's
            # value. So leave it out of the runtime.
            for key in ("command", "args", "image", "resources"):
                main.pop(key, None)
            for job in jobs:
                job["template"]["spec"]["template"]["spec"]["containers"][0].pop("env", None)
            trainer |= {"image": "c/d:1", "env": self._env(), **self._command("PyTorchJob", "Worker")}
            trainer |= self.some({"resourcesPerNode": lambda: {"limits": {self.word(): 1, "nvidia.com/gpu": 2}}})
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": self.word(), **self._metadata()},
            "spec": {
                "runtimeRef": {"name": "torch"},
                "trainer": trainer,
                **self.some({"runtimePatches": self._patches, "unknownField": self.word, "suspend": lambda: True}),
            },
            "runtime": {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "ClusterTrainingRuntime",
                "metadata": {"name": "torch"},
                "spec": {
                    "mlPolicy": {"mpi": {"runLauncherAsNode": self.one(True, False)}} if is_mpi else {"torch": {}},
                    "template": {"metadata": self._metadata(), "spec": self._spec(jobs)},
                },
            },
        }

    def jobset(self) -> Job:
        jobs = [self._replicated("workers")]
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": self.word(), **self._metadata()},
            "spec": self._spec(jobs),
        }

    def units(self) -> Job:
        """Return an MPIJob v1alpha1. It has no roles, only numbers of processing units."""
        return {
            "apiVersion": "kubeflow.org/v1alpha1",
            "kind": "MPIJob",
            "metadata": {"name": self.word(), **self._metadata()},
            "spec": {
                **self.one({"gpus": 4}, {"replicas": 2}, {"processingUnits": 16, "processingUnitsPerNode": 8}),
                **self.some({"launcherOnMaster": lambda: True, "slotsPerWorker": lambda: 2, "odd": self.word}),
                "template": self._replica("MPIJob", "Launcher")["template"],
            },
        }

    def _spec(self, jobs: list[Job]) -> Job:
        if self.random.random() < 0.4:
            before = self._replicated("dataset-initializer", "dataset-initializer")
            jobs = [before, *jobs]
            jobs[-1]["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
        return {
            **self.some(
                {
                    "network": lambda: {"subdomain": self.word()},
                    "failurePolicy": lambda: {"maxRestarts": 2, "rules": [{"name": self.word()}]},
                    "coordinator": lambda: {"replicatedJob": self.word()},
                    "oddField": self.word,
                }
            ),
            "replicatedJobs": jobs,
        }

    def _replicated(self, name: str, step: str = "") -> Job:
        metadata = {"labels": {STEP: step} if step else {}, **self.some({"annotations": lambda: {"a": self.word()}})}
        template = self._replica("PyTorchJob", "Worker")["template"]
        template["spec"]["containers"][0]["name"] = "node"
        spec = self.some({"podFailurePolicy": lambda: {"rules": [self.word()]}, "completionMode": self.word})
        return {"name": name, "template": {"metadata": metadata, "spec": {**spec, "template": template}}}

    def _patches(self) -> list[Job]:
        patch = {
            "metadata": {"labels": {self.word(): self.word()}},
            "spec": {"nodeSelector": {self.word(): self.word()}, "odd": self.word()},
        }
        jobs = [{"name": self.one("node", "absent"), "template": {"spec": {"template": patch}}}]
        template = {"metadata": {"annotations": {"patched": self.word()}}, "spec": {"replicatedJobs": jobs}}
        return [{"manager": "me", "trainingRuntimeSpec": {"template": template}}]
