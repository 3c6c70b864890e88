#!/bin/bash
NODES=${1:-2}
export OMP_NUM_THREADS=4 DATA="$HOME/data"
mpirun -f "$HOSTFILE" -n $((NODES * PPN)) -ppn ${PPN:-2} -genv TASK "$TASK" python "$CODE/train.py" --out "$OUT"
torchrun --nnodes=$NODES --nproc-per-node="${PPN:-2}" --master-addr "$(head -n 1 hosts)" train.py
torchrun $OPTIONS --nproc-per-node 2 --elastic_thing 3 train.py
LR=$lr OMP_NUM_THREADS=8 torchrun --nproc-per-node 2 train.py --lr "$LR"
mpirun -n 2 python train.py : -n 2 python other.py
mpirun -np 2 --mca btl tcp,self vtune -collect hotspots -- python train.py --no_cuda --do_train
accelerate launch --use_fsdp --num_processes $N --num_machines 2 --mixed_precision "$DTYPE" train.py
accelerate launch --config_file "$CONFIG" train.py
mpirun -n 4 --map-by "ppr:$PPN:node" -genvlist CCL_WORKER_COUNT,DATA python train.py
mpirun -n $N torchrun --nproc-per-node $PPN train.py
