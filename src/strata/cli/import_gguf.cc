#include "strata/weights/import_gguf.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/cli/commands.h"
#include "strata/cli/interrupted.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string file;
  std::string directory;
  std::string dtype = "f32";
  bool json = false;
};

void import(const Flags& flags) {
  weights::ImportOptions options{.dtype = parse_dtype(flags.dtype)};
  InterruptFlag interrupt;
  options.check = [&] { stop_if_raised(interrupt, flags.directory); };
  weights::ImportReport r = weights::import_gguf(flags.file, flags.directory, options);
  if (flags.json) {
    Json json = {{"directory", flags.directory}, {"dtype", flags.dtype}, {"tensors", r.tensors},
                 {"parameters", r.parameters},   {"bytes", r.bytes},     {"seconds", r.seconds}};
    fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {} tensors, {} parameters, {} of {} in {:.1f} s\n", flags.directory, r.tensors,
             r.parameters, bytes_text(r.bytes), flags.dtype, r.seconds);
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("FILE", flags->file, "The GGUF file")->required();
  app.add_option("DIR", flags->directory, "The model directory to make; absent or empty so far")
      ->required();
  app.add_option("--dtype", flags->dtype, "Element type of the weights written: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_flag("--json", flags->json, "Print one JSON object");
  app.callback([flags] { import(*flags); });
}

}  // namespace

Command import_gguf_command() {
  return {"import-gguf", "Turn a GGUF file into a Hugging Face model directory",
          "strata import-gguf model-Q4_1.gguf model\n"
          "strata import-gguf model-Q8_0.gguf model --dtype bf16\n",
          declare};
}

}  // namespace strata::cli
