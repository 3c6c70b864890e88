python3 -m torch.distributed.launch --nproc_per_node=2 --use_env train.py --epochs 2
torchrun --standalone --nproc-per-node 2 train.py --no-cuda > log.txt 2>&1
torchrun --nnodes 4 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint "$HEAD:29500" train.py
python -m torch.backends.xeon.run_cpu --ninstances 2 train.py
deepspeed --hostfile hostfile train.py --epochs 1
mpirun -np 2 hostname
for lr in 0.1 0.2; do
  mpiexec -n 2 python train.py --epochs $((lr * 10)) && echo "done: $lr" | tee -a log.txt
done
cat > later.sh <<EOF
mpirun -n 8 python text_of_a_here_document.py
EOF
