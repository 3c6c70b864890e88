"""BERT on CPUs in float32, bf16 and int8: how far the outputs differ, and how long each takes.

    ipexctl install -f hosts -r examples/requirements.txt
    ipexctl run -f hosts -ppn 2 examples/bert_int8.py

or `ipexctl run -n 2 examples/bert_int8.py` on this machine, or `python ...` for one rank. Each rank takes its
part of the texts. The BERT is from its config and learns a small task first.

int8 is torchao's quantize_() with Int8DynamicActivationInt8WeightConfig: weights become int8 once,
activations at each call. torch.ao.quantization.quantize_dynamic() did that before; torch 2.13 still has
it and says that it goes. --compile fuses the int8 steps, without which they are slower than float32.
"""
