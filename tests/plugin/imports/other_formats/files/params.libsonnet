{
  global: {
    // User-defined global parameters; accessible to all component and environments, Ex:
    // replicas: 4,
  },
  components: {
    // Component-level parameters, defined initially from 'ks prototype use ...'
    // Each object below should correspond to a component in the components/ directory
    "kubeflow-core": { cloud: "null" },
    openmpi: {
      controllerImage: "jiez/openmpi-controller:0.0.1",
      cpu: "null",
      exec: "mpiexec -n 4 --hostfile /kubeflow/openmpi/assets/hostfile --allow-run-as-root sh -c 'python /examples/pytorch_mnist.py --api-key t0psecret99'",
      gpu: 0,
      image: "uber/horovod:0.12.1-tf1.8.0-py3.5",
      imagePullPolicy: "Always",
      init: "/kubeflow/openmpi/assets/init.sh",
      initTimeout: 600,
      memory: "4Gi",
      name: "openmpi",
      namespace: "null",
      nodeSelector: "null",
      schedulerName: "default-scheduler",
      secret: "openmpi-secret",
      workers: 4,
      downloadDataFrom: "s3://digits",
      useHostNetwork: true,
      supplementalGroups: [500],
    },
  },
}
