 export CCL_WORKER_COUNT=1 CCL_ATL_TRANSPORT=ofi
 export MASTER_ADDR=192.0.2.10 #node0 ip
 export HF_TOKEN=hf_not_a_real_one
 export DATA="$HOME/my data"
 mpirun -f hostfile -n 4 -ppn 2 \
 -genv OMP_NUM_THREADS=23 -genv KMP_BLOCKTIME 1 -genv TASK qa -iface eth1 \
 python3 run_qa.py \
 --model_name_or_path ./model \
 --do_train --no_cuda True --use_ipex True \
 --output_dir "$DATA/out" \
 --ddp_backend=ccl \
 --bf16
