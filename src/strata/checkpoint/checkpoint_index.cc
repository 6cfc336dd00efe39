#include "strata/checkpoint/checkpoint_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata::checkpoint {
namespace {

constexpr const char* kFormat = "strata.checkpoint";

[[noreturn]] void damaged(const std::string& where, std::string expected, std::string got) {
  fail({.id = "checkpoint.index",
        .where = where,
        .expected = std::move(expected),
        .got = std::move(got),
        .code = Code::data_loss});
}

// An object with exactly these keys.
void check_keys(const Json& json, const std::vector<const char*>& keys, const std::string& where) {
  if (!json.is_object()) damaged(where, "an object", json.type_name());
  for (const char* key : keys) {
    if (!json.contains(key)) damaged(where, fmt::format("a key '{}'", key), "none");
  }
  if (json.size() == keys.size()) return;
  for (const auto& item : json.items()) {
    auto known = std::find(keys.begin(), keys.end(), item.key());
    if (known == keys.end()) damaged(where, "known keys only", "'" + item.key() + "'");
  }
}

const Json& typed(const Json& object, const char* key, Json::value_t type,
                  const std::string& where) {
  const Json& value = object.at(key);
  if (value.type() != type) {
    damaged(fmt::format("{}, key '{}'", where, key),
            fmt::format("of type {}", Json(type).type_name()),
            fmt::format("{} {}", value.type_name(), value.dump().substr(0, 60)));
  }
  return value;
}

std::string text_at(const Json& object, const char* key, const std::string& where) {
  return typed(object, key, Json::value_t::string, where).get<std::string>();
}

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

int64_t integer(const Json& value, int64_t low, int64_t high, const std::string& where) {
  bool fits = value.is_number_integer() &&
              (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{kLargest}) &&
              value.get<int64_t>() >= low && value.get<int64_t>() <= high;
  if (!fits) {
    damaged(where, fmt::format("an integer from {} to {}", low, high), value.dump().substr(0, 60));
  }
  return value.get<int64_t>();
}

DType dtype_at(const Json& object, const std::string& where) {
  std::string name = text_at(object, "dtype", where);
  try {
    return parse_dtype(name);
  } catch (const Error&) {
    damaged(where + ", key 'dtype'", "the name of an element type", "'" + name + "'");
  }
}

Json tensors_json(const std::vector<TensorEntry>& tensors) {
  Json list = Json::array();
  for (const TensorEntry& t : tensors) {
    list.push_back({{"name", t.name},
                    {"dtype", std::string(name_of(t.dtype))},
                    {"dims", t.dims},
                    {"file", t.file},
                    {"sha256", t.sha256}});
  }
  return list;
}

std::vector<TensorEntry> parse_tensors(const Json& json, const char* key,
                                       const std::string& where) {
  std::vector<TensorEntry> out;
  for (const Json& entry : typed(json, key, Json::value_t::array, where)) {
    std::string place = fmt::format("{}, {}[{}]", where, key, out.size());
    check_keys(entry, {"name", "dtype", "dims", "file", "sha256"}, place);
    TensorEntry t{text_at(entry, "name", place),
                  DType::f32,
                  {},
                  text_at(entry, "file", place),
                  text_at(entry, "sha256", place)};
    place += " '" + t.name + "'";
    t.dtype = dtype_at(entry, place);
    for (const Json& dim : typed(entry, "dims", Json::value_t::array, place)) {
      t.dims.push_back(integer(dim, 0, kLargest, place + ", dims"));
    }
    out.push_back(std::move(t));
  }
  return out;
}

// A name in the directory itself: it leads nowhere else.
bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

std::vector<FileEntry> parse_files(const Json& json, const std::string& where) {
  std::vector<FileEntry> out;
  for (const Json& entry : typed(json, "files", Json::value_t::array, where)) {
    std::string place = fmt::format("{}, files[{}]", where, out.size());
    check_keys(entry, {"name", "sha256"}, place);
    out.push_back({text_at(entry, "name", place), text_at(entry, "sha256", place)});
    if (!is_plain(out.back().name)) {
      damaged(place, "the name of a file in the checkpoint", "'" + out.back().name + "'");
    }
  }
  return out;
}

Json run_json(const RunState& run) {
  Json counts = Json::object();
  for (const auto& [name, value] : run.counts) counts[name] = value;
  Json out{{"counts", counts}, {"loader", run.loader}, {"rng", run.rng}, {"extra", run.extra}};
  if (run.micro_steps) out["micro_steps"] = *run.micro_steps;
  return out;
}

RunState parse_run(const Json& json, const std::string& where) {
  const std::string place = where + ", key 'run'";
  const Json& from = typed(json, "run", Json::value_t::object, where);
  RunState run;
  std::vector<const char*> keys{"counts", "loader", "rng", "extra"};
  if (from.contains("micro_steps")) {
    keys.push_back("micro_steps");
    run.micro_steps = integer(from["micro_steps"], 0, kLargest, place + ".micro_steps");
  }
  check_keys(from, keys, place);
  run.step = integer(json.at("step"), 0, kLargest, where + ", key 'step'");
  for (const auto& item : typed(from, "counts", Json::value_t::object, place).items()) {
    run.counts[item.key()] =
        integer(item.value(), std::numeric_limits<int64_t>::min(), kLargest, place + ".counts");
  }
  for (const Json& word : typed(from, "rng", Json::value_t::array, place)) {
    run.rng.push_back(static_cast<uint32_t>(
        integer(word, 0, std::numeric_limits<uint32_t>::max(), place + ".rng")));
  }
  run.loader = from.at("loader");
  run.extra = from.at("extra");
  return run;
}

}  // namespace

Json CheckpointIndex::to_json() const {
  Json copied = Json::array();
  for (const FileEntry& f : files) copied.push_back({{"name", f.name}, {"sha256", f.sha256}});
  return {{"format", kFormat},
          {"version", kVersion},
          {"step", run.step},
          {"model", model.to_json()},
          {"model_hash", model.hash()},
          {"parameters", tensors_json(parameters)},
          {"slots", tensors_json(slots)},
          {"files", copied},
          {"run", run_json(run)}};
}

CheckpointIndex CheckpointIndex::from_json(const Json& json, const std::string& where) {
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat) {
    damaged(where, fmt::format("an object with \"format\": \"{}\"", kFormat), "another JSON value");
  }
  if (!json.contains("version")) damaged(where, "a key 'version'", "none");
  int64_t version = integer(json["version"], 1, kLargest, where + ", key 'version'");
  if (version != kVersion) {
    unimplemented({.id = "checkpoint.version",
                   .where = where,
                   .expected = fmt::format("format version {}", kVersion),
                   .got = fmt::format("{}", version),
                   .cure = "Read it with the version of Strata that wrote it"});
  }
  check_keys(
      json,
      {"format", "version", "step", "model", "model_hash", "parameters", "slots", "files", "run"},
      where);
  CheckpointIndex index;
  index.model = sharding::Manifest::from_json(json.at("model"), where + ", key 'model'");
  std::string hash = text_at(json, "model_hash", where);
  if (hash != index.model.hash()) {
    damaged(where + ", key 'model_hash'", "the hash of 'model', " + index.model.hash(), hash);
  }
  index.parameters = parse_tensors(json, "parameters", where);
  index.slots = parse_tensors(json, "slots", where);
  index.files = parse_files(json, where);
  index.run = parse_run(json, where);
  return index;
}

CheckpointIndex read_index(const std::filesystem::path& checkpoint) {
  std::filesystem::path file = checkpoint / "manifest.json";
  std::error_code ec;
  require(std::filesystem::exists(file, ec),
          {.id = "checkpoint.none",
           .where = checkpoint.string(),
           .expected = "a checkpoint, which is a directory with a manifest.json",
           .got = std::filesystem::is_directory(checkpoint, ec) ? "a directory without one"
                                                                : "no directory",
           .code = Code::not_found});
  return CheckpointIndex::from_json(
      parse_json(read_file(file), file.string(), DuplicateKeys::refuse), file.string());
}

}  // namespace strata::checkpoint
