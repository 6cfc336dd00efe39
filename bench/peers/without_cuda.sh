#!/bin/sh
# Makes PyPI's torch importable without 2 GB of CUDA libraries: without_cuda.sh TORCH_LIB_DIR
#
# PyPI has no CPU-only torch for x86-64. The one it has asks the loader for cuBLAS, cuDNN, NCCL and
# others although nothing on a CPU calls them. One small library with their function names, each of
# which aborts, is put under all of those file names. The CPU code (libtorch_cpu.so, with MKL and
# oneDNN inside) is untouched. libcudart is real, from nvidia-cuda-runtime: it is called at start-up
# and says "no device"; libcuda (the driver) stays absent.
set -eu
cd "$1"

# Names by their symbol version, or by prefix where a library has no versions.
nm -D --undefined-only libtorch*.so libc10*.so | awk '
  $2 ~ /@(libcu(blas|blasLt|solver|sparse|fft|dnn|pti)\.so|libnvrtc\.so|NVSHMEM)/ ||
  $2 ~ /^(cuFile|cusparseLt|nccl|nvshmem)/ { sub(/@.*/, "", $2); print $2 }' | sort -u |
  awk 'BEGIN { print "#include <stdlib.h>" } { print "void " $1 "(void) { abort(); }" }' |
  cc -shared -fPIC -x c - -o libwithout_cuda.so

readelf -d libtorch*.so libc10*.so |
  grep -oE '\[lib(cu[a-zA-Z]*|nv[a-z_]*|nccl)\.so\.[0-9]+\]' | tr -d '[]' | sort -u |
  while read -r name; do
    case $name in libcudart.* | libcuda.so.*) ;; *) ln -sf libwithout_cuda.so "$name" ;; esac
  done
