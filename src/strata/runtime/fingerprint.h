// What a compiled program depends on besides its text: the exact plug-in and the machine.
#pragma once

#include <filesystem>
#include <string>

#include "strata/pjrt/client.h"
#include "strata/runtime/disk_cache.h"

namespace strata::runtime {

// SHA-256 of a plug-in's library. Reading 200 MB at every start would cost more than most loads, so
// the digest is kept in `cache` under the file's path, size, times and inode.
std::string plugin_digest(const std::filesystem::path& library, DiskCache& cache);

// Model and feature flags of this machine's CPU ("model name" and "flags" or "Features" of
// /proc/cpuinfo), since programs are compiled for exactly those; empty where the file tells none.
std::string cpu_features();

// Everything of `client` and the machine that a compiled program depends on, as one text: digest
// of the plug-in, API and platform version, devices, CPU features, $XLA_FLAGS.
std::string machine_fingerprint(const pjrt::Client& client, DiskCache& cache);

}  // namespace strata::runtime
