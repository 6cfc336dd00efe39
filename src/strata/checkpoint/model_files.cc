#include "strata/checkpoint/model_files.h"

#include <algorithm>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/checkpoint/checkpoint_store.h"

namespace strata::checkpoint {

namespace fs = std::filesystem;

const std::vector<std::string>& model_file_names() {
  static const std::vector<std::string> names = {"config.json",
                                                 "generation_config.json",
                                                 "tokenizer.json",
                                                 "tokenizer_config.json",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "tokenizer.model",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "chat_template.jinja",
                                                 "chat_template.json"};
  return names;
}

std::vector<std::string> copy_model_files(const fs::path& source, const fs::path& target,
                                          const std::vector<std::string>& skip) {
  std::error_code ec;
  require(fs::exists(source / "config.json", ec),
          {.id = "checkpoint.no_config",
           .where = source.string(),
           .expected = "a model directory with a config.json",
           .got = fs::is_directory(source, ec) ? "a directory without one" : "no directory",
           .code = Code::not_found});
  std::vector<std::string> copied;
  for (const std::string& name : model_file_names()) {
    bool skipped = std::find(skip.begin(), skip.end(), name) != skip.end();
    if (skipped || !fs::exists(source / name, ec)) continue;
    MappedFile map(source / name);
    FileWriter writer(target / name);
    writer.write(map.bytes());
    writer.commit();
    copied.push_back(name);
  }
  return copied;
}

fs::path model_path(const fs::path& path) {
  std::error_code ec;
  bool holds_weights = fs::exists(path / "model.safetensors", ec) ||
                       fs::exists(path / "model.safetensors.index.json", ec);
  if (holds_weights || !fs::is_directory(path / "checkpoints", ec)) return path;
  fs::path latest = latest_checkpoint(path).path;
  log_line(path.string() + " is a run: its latest checkpoint is " + latest.filename().string());
  return latest;
}

}  // namespace strata::checkpoint
