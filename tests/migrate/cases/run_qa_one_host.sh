#!/bin/bash
export CCL_WORKER_COUNT=1
export MASTER_ADDR=127.0.0.1
mpirun -n 2 -genv OMP_NUM_THREADS=23 \
python3 run_qa.py \
--model_name_or_path ./model \
--do_train \
--do_eval \
--per_device_train_batch_size 12  \
--learning_rate 3e-5  \
--num_train_epochs 2  \
--doc_stride 128  \
--output_dir /tmp/debug_squad/ \
--no_cuda \
--ddp_backend ccl \
--use_ipex
