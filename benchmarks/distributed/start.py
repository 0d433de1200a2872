"""Start the worker alone or with torchrun, and collect what its processes wrote."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(data, method, settings, *, processes, threads):
    """Return what each process wrote, in order."""
    with tempfile.TemporaryDirectory() as folder:
        program = [str(HERE / "worker.py"), str(data), method, json.dumps(settings), folder]
        command = [sys.executable]
        if processes > 1:
            command += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
            command += ["--nproc-per-node", str(processes)]
        subprocess.run([*command, *program], check=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)})
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))]
