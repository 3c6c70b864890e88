import intel_extension_for_pytorch as ipex

pool = ipex.cpu.runtime.CPUPool(node_id=0)
model = ipex.cpu.runtime.MultiStreamModule(model, num_streams=2, cpu_pool=pool)
model = ipex.fast_bert(model)
