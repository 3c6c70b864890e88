import torch
import intel_extension_for_pytorch as ipex
from intel_extension_for_pytorch.quantization import convert, prepare

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
x = torch.rand(1, 3, 32, 32)
prepared = prepare(model, ipex.quantization.default_static_qconfig, example_inputs=x)
prepared(x)
traced = torch.jit.freeze(torch.jit.trace(convert(prepared), x))
