#!/bin/bash
# lines for one machine
export CCL_WORKER_COUNT=1
export MASTER_ADDR=127.0.0.1
mpirun -n 2 -genv OMP_NUM_THREADS=1 -genv CCL_ATL_TRANSPORT ofi python3 -u train.py --epochs 2
mpiexec.hydra -np 2 -ppn 2 -bind-to core -genvlist CCL_WORKER_COUNT python -m train
python -m torch.distributed.launch --nproc_per_node="${PPN:-2}" --use_env train.py --no-cuda
python -m intel_extension_for_pytorch.cpu.launch --nnodes 1 --nprocs-per-node 2 --ccl-worker-count 1 train.py
accelerate launch --cpu --num_processes 2 --mixed_precision bf16 train.py
accelerate launch --config_file no_launcher.yaml train.py
OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 train.py --epochs "$EPOCHS"
