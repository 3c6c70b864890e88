#!/bin/sh
torch_ccl_path=$(python -c "import torch; import torch_ccl; import os; print(os.path.dirname(torch_ccl.__file__))")
. $torch_ccl_path/env/setvars.sh
export LD_PRELOAD=${CONDA_PREFIX}/lib/libiomp5.so:${CONDA_PREFIX}/lib/libtcmalloc.so
ipexrun --nnodes 2 --nprocs-per-node 2 --hostfile hostfile --logical-cores-for-ccl --ccl-worker-count 2 train.py --epochs 3
python -m intel_extension_for_pytorch.cpu.launch --ninstances 1 train.py
if [ -n "$DEBUG" ]; then
  KMP_AFFINITY=granularity=fine,compact,1,0 python -u train.py --no-cuda
fi
