#include "strata/base/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {
namespace {

constexpr int kMaxDepth = 512;

[[noreturn]] void wrong_type(const Json& value, const std::string& key, const char* expected,
                             const std::string& where) {
  fail({.id = "json.type",
        .where = where + ", key '" + key + "'",
        .expected = expected,
        .got = std::string(value.type_name()) + " " + value.dump().substr(0, 60)});
}

const Json* find(const Json& object, const std::string& key, const std::string& where) {
  require(object.is_object(), {.id = "json.not_object",
                               .where = where,
                               .expected = "a JSON object holding '" + key + "'",
                               .got = object.type_name()});
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

const Json& find_required(const Json& object, const std::string& key, const std::string& where) {
  const Json* value = find(object, key, where);
  require(value != nullptr, {.id = "json.missing_key",
                             .where = where,
                             .expected = "key '" + key + "'",
                             .got = "no such key",
                             .code = Code::not_found});
  return *value;
}

int64_t as_int(const Json& v, const std::string& key, const std::string& where) {
  if (v.is_number_unsigned() && v.get<uint64_t>() > uint64_t{INT64_MAX}) {
    wrong_type(v, key, "an integer below 2^63", where);
  }
  if (v.is_number_integer()) return v.get<int64_t>();
  if (v.is_number_float()) {
    double d = v.get<double>();
    if (std::floor(d) == d && std::fabs(d) < 9e15) return static_cast<int64_t>(d);
  }
  wrong_type(v, key, "an integer", where);
}

// The keys seen so far in each open object, outermost first.
class KeyTracker {
 public:
  void observe(int depth, Json::parse_event_t event, const Json& parsed, const std::string& where) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) {
      seen_.resize(static_cast<size_t>(depth) + 1);
      seen_.back().clear();
    }
    if (event != Event::key) return;
    // A key is reported one level below the start of its object.
    const auto& key = parsed.get_ref<const std::string&>();
    require(seen_.at(static_cast<size_t>(depth) - 1).insert(key).second,
            {.id = "json.duplicate_key",
             .where = where,
             .expected = "each key once in an object",
             .got = "'" + key.substr(0, 200) + "' twice",
             .code = Code::data_loss});
  }

 private:
  std::vector<std::set<std::string>> seen_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where, DuplicateKeys duplicates) {
  // The library takes a NUL byte for the end of the text and would ignore what follows it.
  size_t nul = text.find('\0');
  require(nul == std::string_view::npos, {.id = "json.nul",
                                          .where = where,
                                          .expected = "JSON text",
                                          .got = "a NUL byte at byte " + std::to_string(nul),
                                          .code = Code::data_loss});
  KeyTracker keys;
  auto limit = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) {
      fail({.id = "json.depth",
            .where = where,
            .expected = "at most 512 nested levels",
            .got = "more",
            .code = Code::data_loss});
    }
    if (duplicates == DuplicateKeys::refuse) keys.observe(depth, event, parsed, where);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), limit);
  } catch (const nlohmann::json::exception& e) {
    std::string reason = e.what();
    size_t bracket = reason.find("] ");
    if (bracket != std::string::npos) reason = reason.substr(bracket + 2);
    fail({.id = "json.parse",
          .where = where,
          .expected = "valid JSON",
          .got = reason,
          .code = Code::data_loss});
  }
}

Json read_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

int64_t get_int(const Json& o, const std::string& key, const std::string& where) {
  return as_int(find_required(o, key, where), key, where);
}

int64_t get_int_or(const Json& o, const std::string& key, int64_t fallback,
                   const std::string& where) {
  const Json* v = find(o, key, where);
  return v == nullptr ? fallback : as_int(*v, key, where);
}

double get_double(const Json& o, const std::string& key, const std::string& where) {
  const Json& v = find_required(o, key, where);
  if (!v.is_number()) wrong_type(v, key, "a number", where);
  return v.get<double>();
}

double get_double_or(const Json& o, const std::string& key, double fallback,
                     const std::string& where) {
  const Json* v = find(o, key, where);
  return v == nullptr ? fallback : get_double(o, key, where);
}

bool get_bool_or(const Json& o, const std::string& key, bool fallback, const std::string& where) {
  const Json* v = find(o, key, where);
  if (v == nullptr) return fallback;
  if (!v->is_boolean()) wrong_type(*v, key, "true or false", where);
  return v->get<bool>();
}

std::string get_string(const Json& o, const std::string& key, const std::string& where) {
  const Json& v = find_required(o, key, where);
  if (!v.is_string()) wrong_type(v, key, "a string", where);
  return v.get<std::string>();
}

std::string get_string_or(const Json& o, const std::string& key, const std::string& fallback,
                          const std::string& where) {
  const Json* v = find(o, key, where);
  return v == nullptr ? fallback : get_string(o, key, where);
}

}  // namespace strata
