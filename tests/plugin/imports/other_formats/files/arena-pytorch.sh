arena submit pytorch --name=torch-dist --gpus=1 --workers=2 --image=example.com/pytorch:1.5.1 --working-dir /work \
  --data-dir /mnt/set:/set --running-timeout 2h --clean-task-policy All --retry=2 --hostNetwork \
  "python code/mnist.py --backend gloo"
