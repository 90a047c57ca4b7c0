# How the team makes its runs.
NAMESPACE=vision
SECRET=openmpi-secret
IMAGE=registry.example.com/vgg16:2
EXEC="mpiexec -np 32 --hostfile /kubeflow/openmpi/assets/hostfile --allow-run-as-root --display-map --tag-output \
  --timestamp-output -bind-to none -map-by slot -mca pml ob1 -mca btl ^openib -mca btl_tcp_if_exclude lo,docker0 \
  -mca plm_rsh_no_tree_spawn 1 -x NCCL_MIN_NRINGS=8 -x NCCL_DEBUG=INFO sh -c 'python tf_cnn_benchmarks.py --model vgg16'"
ks init openmpi
ks generate openmpi vgg16 --image ${IMAGE} --secret ${SECRET} --workers 4 --gpu 8 --cpu=32 --memory 200Gi \
  --exec "${EXEC}" --nodeSelector "pool=gpu,zone=a" --customResources "example.com/nic=2"
ks param set vgg16 schedulerName bin-packing
ks apply default
