arena submit mpijob --name=mpi-dist --gpus=2 --workers=3 --cpu 8 --memory=32Gi \
  --image=registry.example.com/horovod:0.13.11-tf1.10.0 -e NCCL_DEBUG=INFO --env=OSS_ACCESS_KEY=t0psecret99 \
  --data=training-data:/data --selector zone=a --toleration gpu=true:NoSchedule,Equal --toleration all \
  --sync-mode=git --sync-source=https://example.com/benchmarks.git --tensorboard --logdir=/logs --gang \
  --label team=vision --priority high --image-pull-secret registry-login \
  "mpirun -np 6 --allow-run-as-root -bind-to none python code/train.py --num_batches=100"
