"""llama.cpp's server for a GGUF file: `python llama_server.py FILE NAME WINDOW THREADS PORT`.

It is run by a Python that has the package xllamacpp, and nothing of this one. It prints the address once it serves the
file (PORT 0 takes a free port), and ends when its standard input does, so that a killed parent leaves nothing behind.
"""

import sys


def main(file: str, name: str, window: str, threads: str, port: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    params.cpuparams.n_threads = int(threads)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
