"""Stand-ins for what Intel and PyTorch publish: named like them, and not them.

Every wheel says so in its METADATA. What they do is written down here and nowhere else: `torch` can
be trained by one number and adds up over files, `impi_rt` starts processes on this host, and the
bindings register nothing. That they pass shows names, indexes, order and variables, not oneCCL.
"""

from __future__ import annotations

NEW, OLD = "oneccl_bindings_for_pytorch", "torch_ccl"
_MPI = {NEW: "$CCL_ROOT/opt/mpi", OLD: "$CCL_ROOT"}
_FABRIC = {NEW: "$CCL_ROOT/opt/mpi/libfabric/lib", OLD: "$CCL_ROOT/lib"}
_BIN = {NEW: "$CCL_ROOT/bin:$CCL_ROOT/opt/mpi/bin", OLD: "$CCL_ROOT/bin"}
_LIB = {NEW: f"$CCL_ROOT/lib:$CCL_ROOT/opt/mpi/lib:{_FABRIC[NEW]}", OLD: _FABRIC[OLD]}
# module -> what its setvars.sh sets; from 1.12 on MPI has a folder of its own below the package
SETVARS = {
    module: {
        "CCL_ROOT": "$CCL_ROOT",
        "I_MPI_ROOT": _MPI[module],
        "LD_LIBRARY_PATH": _LIB[module],
        "LIBRARY_PATH": "$CCL_ROOT/lib",
        "CPATH": "$CCL_ROOT/include",
        "PATH": _BIN[module],
        "FI_PROVIDER_PATH": f"{_FABRIC[module]}/prov",
    }
    for module in _BIN
}


def setvars_sh(module: str) -> str:
    """As oneCCL's own: it finds its place by BASH_SOURCE, uses `source`, wants to be sourced."""
    lines = [
        "#!/bin/bash",
        'if [ "$0" = "${BASH_SOURCE[0]}" ]; then echo "must be sourced"; exit 255; fi',
        'for word in "$@"; do echo "unknown option $word"; return 1; done',
        'CCL_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"; export CCL_ROOT',
        "echo ':: initializing stand-in of oneCCL'",
    ]
    for name, value in SETVARS[module].items():
        if name != "CCL_ROOT":
            rest = "" if name in ("I_MPI_ROOT", "FI_PROVIDER_PATH") else f"${{{name}:+:${name}}}"
            lines.append(f'export {name}="{value}{rest}"')
    return "\n".join(lines) + "\n"
