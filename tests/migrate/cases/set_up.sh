python -m pip install torch==1.13.0
pip install intel_extension_for_pytorch==1.13.0 -f https://example.com/wheels
pip install oneccl_bind_pt==1.13.0 accelerate
