#include "strata/runtime/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/hash.h"
#include "strata/base/log.h"
#include "strata/base/strings.h"
#include "strata/runtime/fingerprint.h"

namespace strata::runtime {
namespace {

// Changes with the layout of what is kept below.
constexpr std::string_view kFormat = "strata program 2";

// A kept program: the signature's length in decimal, a line break, the signature, the executable.
std::string pack(const Signature& signature, std::string_view executable) {
  std::string json = signature.json();
  return std::to_string(json.size()) + "\n" + json + std::string(executable);
}

Slot slot_of(const ir::Port& port, const ir::Type& type, const sharding::Mesh& mesh) {
  sharding::ParamType declared = sharding::plain_type(type.dtype, type.dims);
  for (size_t i = 0; i < port.axes.size(); ++i) declared.dims[i].axes = port.axes[i];
  bool donated = port.attributes.find("tf.aliasing_output") != std::string::npos ||
                 port.attributes.find("jax.buffer_donor") != std::string::npos;
  return {port.name, ArraySpec::sharded(declared, mesh, port.name), donated};
}

// Values that a program keeps in another memory than the default one (ops::placed) need a device
// that has it.
void check_memories(const pjrt::Client& client, std::string_view text) {
  constexpr std::string_view key = "_xla_buffer_placement = \"";
  std::vector<std::string> kinds;
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at)) {
    at += key.size();
    std::string kind(text.substr(at, text.find('"', at) - at));
    if (kinds.empty()) kinds = client.memory_kinds(client.devices()[0]);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    unimplemented({.id = "runtime.memory_kind",
                   .where = "plug-in " + client.plugin()->name(),
                   .expected = "one of its kinds of memory, " + join(kinds, ", "),
                   .got = "'" + kind + "'",
                   .cure = "Offload nothing (--remat, layers.remat) or use another plug-in"});
  }
}

}  // namespace

CompileRequest request_for(const ir::Function& f, std::string name) {
  CompileRequest request;
  request.name = std::move(name);
  const sharding::Mesh& mesh = f.mesh();
  if (mesh.size() == 1) return request;
  request.options.num_partitions = static_cast<int>(mesh.size());
  request.options.device_ids.assign(mesh.device_ids().begin(), mesh.device_ids().end());
  for (size_t i = 0; i < f.top().params.size(); ++i) {
    request.parameters.push_back(slot_of(f.argument_ports()[i], f.top().params[i].type(), mesh));
  }
  for (size_t i = 0; i < f.top().results.size(); ++i) {
    request.results.push_back(slot_of(f.result_ports()[i], f.top().results[i].type(), mesh));
  }
  return request;
}

Compiler::Compiler(std::shared_ptr<const pjrt::Client> client, CompilerOptions options)
    : client_(std::move(client)), disk_(std::move(options.cache_dir), options.cache_limit) {}

const std::string& Compiler::fingerprint() {
  // In memory every program is of this client; telling machines apart is for what is kept on disk.
  std::call_once(fingerprint_once_, [&] {
    if (!disk_.directory().empty()) fingerprint_ = machine_fingerprint(*client_, disk_);
  });
  return fingerprint_;
}

std::string Compiler::key_of(std::string_view text, const pjrt::CompileOptions& options) {
  std::string bytes = options.serialize();
  std::string all =
      fmt::format("{}\n{}\n{}\n{}\n", kFormat, fingerprint().size(), bytes.size(), text.size());
  all += fingerprint();
  all += bytes;
  all += text;
  return sha256(all);
}

std::shared_ptr<const Program> Compiler::compile(std::string_view text, CompileRequest request) {
  try {
    bool from_memory = false;
    LoadedPtr loaded = find_or_make(key_of(text, request.options), text, request, from_memory);
    ProgramTimes times{.trace = request.trace_seconds};
    if (!from_memory) {
      times.compile = loaded->compile_seconds;
      times.load = loaded->load_seconds;
    }
    {
      std::lock_guard lock(mutex_);
      counters_.trace_seconds += request.trace_seconds;
      if (from_memory) ++counters_.memory_hits;
    }
    return std::make_shared<const Program>(request.name, loaded->executable, loaded->signature,
                                           std::move(request.parameters),
                                           std::move(request.results), times);
  } catch (Error& e) {
    e.add_context("while compiling " + request.name);
    throw;
  }
}

Compiler::LoadedPtr Compiler::find_or_make(const std::string& key, std::string_view text,
                                           const CompileRequest& request, bool& from_memory) {
  std::promise<LoadedPtr> promise;
  std::shared_future<LoadedPtr> future;
  {
    std::lock_guard lock(mutex_);
    auto found = programs_.find(key);
    from_memory = found != programs_.end();
    future = from_memory ? found->second : promise.get_future().share();
    if (!from_memory) programs_.emplace(key, future);
  }
  if (from_memory) return future.get();
  try {
    LoadedPtr loaded = load(key);
    if (loaded == nullptr) loaded = compile_now(key, text, request);
    promise.set_value(loaded);
    return loaded;
  } catch (...) {
    // Whoever waits gets the error; whoever asks next tries again.
    promise.set_exception(std::current_exception());
    std::lock_guard lock(mutex_);
    programs_.erase(key);
    throw;
  }
}

Compiler::LoadedPtr Compiler::load(const std::string& key) {
  Stopwatch clock;
  std::optional<std::string> kept = disk_.load(key);
  if (!kept) return nullptr;
  try {
    size_t line = kept->find('\n');
    size_t length = line == std::string::npos ? 0 : std::stoul(kept->substr(0, line));
    std::string_view rest = std::string_view(*kept).substr(line + 1);
    auto loaded = std::make_shared<Loaded>();
    loaded->signature = Signature::from_json(rest.substr(0, length));
    loaded->executable = std::make_shared<const pjrt::Executable>(
        pjrt::Executable::deserialize(client_, rest.substr(length)));
    loaded->load_seconds = clock.seconds();
    std::lock_guard lock(mutex_);
    ++counters_.disk_hits;
    counters_.load_seconds += loaded->load_seconds;
    return loaded;
  } catch (const std::exception& e) {
    log_line(
        fmt::format("compile cache: entry {} does not load ({}); compiling again", key, e.what()));
    disk_.remove(key);
    std::lock_guard lock(mutex_);
    ++counters_.disk_failures;
    return nullptr;
  }
}

Compiler::LoadedPtr Compiler::compile_now(const std::string& key, std::string_view text,
                                          const CompileRequest& request) {
  check_memories(*client_, text);
  Stopwatch clock;
  auto loaded = std::make_shared<Loaded>();
  loaded->executable = std::make_shared<const pjrt::Executable>(
      pjrt::Executable::compile(client_, text, request.options));
  loaded->signature = Signature::of(loaded->executable->optimized_program());
  loaded->compile_seconds = clock.seconds();
  {
    std::lock_guard lock(mutex_);
    ++counters_.compiles;
    counters_.compile_seconds += loaded->compile_seconds;
  }
  if (disk_.directory().empty()) return loaded;
  try {
    disk_.store(key, pack(loaded->signature, loaded->executable->serialize()));
  } catch (const Error& e) {
    // A plug-in that cannot serialise still runs.
    log_line("compile cache: not kept: " + e.message());
  }
  return loaded;
}

CompileCounters Compiler::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace strata::runtime
