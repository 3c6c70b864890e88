#!/usr/bin/env bash
set -e
accelerate launch --config_file mpirun.yaml nlp_example.py
accelerate launch --cpu --num_processes 2 --num_machines 1 --mixed_precision bf16 --ipex --mpirun_ccl 1 nlp_example.py
accelerate launch --multi_cpu --dynamo_backend=no -m package.train --lr 0.1
