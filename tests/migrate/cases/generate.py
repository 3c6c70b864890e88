import torch
from transformers import AutoModelForCausalLM
from intel_extension_for_pytorch import llm
import intel_extension_for_pytorch as ipex

model = AutoModelForCausalLM.from_pretrained("./model")
qconfig = ipex.quantization.get_weight_only_quant_qconfig_mapping(
    weight_dtype=ipex.quantization.WoqWeightDtype.INT8
)
model = llm.optimize(model.eval(), dtype=torch.bfloat16, quantization_config=qconfig)
ipex.set_fp32_math_mode(mode=ipex.FP32MathMode.BF32, device="cpu")
model = torch.compile(model, backend="ipex")
