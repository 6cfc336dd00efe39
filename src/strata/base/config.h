// Config: a TOML file plus `--set key=value` overrides, read through typed getters.
//
// Keys are dotted paths ("train.lr"); element i of an array of tables is "groups[i].name". Every
// getter declares its key: afterwards `reject_unknown` refuses whatever nobody declared, and
// `effective` shows each declared key with the value that is in force, defaults included.
// Errors name file:line (or "--set key"), the key, what was expected and what came.
//
// Not thread-safe: getters record what they saw.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/json.h"

namespace strata {

// Closed interval of lawful integers.
struct IntRange {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

// Interval of lawful numbers; `open_below` leaves `least` itself out.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_below = false;
};

class Config {
 public:
  // Reads `path` and applies overrides in order. An override's value is TOML ("3", "1e-4", "true",
  // "[1, 2]", "'text'"); what is not TOML is taken as a string, so quotes may be left out.
  // Throws as read_file; data_loss with file:line on bad TOML; invalid_argument on a malformed
  // override or one that turns a table into a value or the reverse.
  static Config from_file(const std::filesystem::path& path,
                          std::span<const std::string> overrides = {});
  // `where` stands for the path in errors.
  static Config from_text(std::string_view text, const std::string& where,
                          std::span<const std::string> overrides = {});

  // Whether the file or an override sets `key`, a value or a table. Declares nothing.
  bool has(const std::string& key) const;
  // Number of tables in the array of tables `key`; 0 when absent.
  int64_t count(const std::string& key);

  // Without a fallback the key is required: throws not_found naming it. All throw
  // invalid_argument on a wrong type or a value out of range. NaN is never a lawful number.
  bool flag(const std::string& key, bool fallback);
  int64_t integer(const std::string& key, IntRange range = {});
  int64_t integer(const std::string& key, int64_t fallback, IntRange range);
  double number(const std::string& key, NumberRange range = {});
  double number(const std::string& key, double fallback, NumberRange range);
  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& fallback);
  // One of `allowed`; the error lists them and the nearest.
  std::string choice(const std::string& key, const std::string& fallback,
                     std::span<const std::string> allowed);
  // Lists; absent = empty.
  std::vector<std::string> texts(const std::string& key);
  std::vector<int64_t> integers(const std::string& key, IntRange range = {});
  std::vector<double> numbers(const std::string& key, NumberRange range = {});

  // Declares a key that may be absent, without reading it.
  void allow(const std::string& key);
  // Every declared key, in order of declaration.
  std::vector<std::string> declared() const;

  // Throws invalid_argument naming every undeclared key (the first 20) with its place and a
  // declared one: of those of the same last part, else of all, the nearest. Call it when all
  // getters have run, before any work starts.
  void reject_unknown() const;

  // "config.toml:12" or "--set train.lr": where `key` was set; the file's name when it was not.
  std::string place(const std::string& key) const;

  // All declared keys with their values in force, as nested objects, in order of declaration.
  // Absent keys without a fallback are left out.
  Json effective() const;
  // The same as TOML text that from_text reads back to the same values.
  std::string effective_toml() const;

 private:
  struct Entry {
    Json value;
    std::string place;
    std::string raw;  // an override's text as it was given
    bool is_table = false;
  };

  const Entry* declare(const std::string& key);
  const Entry& declare_required(const std::string& key, const char* expected);
  void apply(const std::string& override_text);
  void remember(const std::string& key, Json value);
  std::string checked_text(const std::string& key, const Entry& entry) const;

  std::string where_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, size_t> declared_;               // key → position in effective_
  std::vector<std::pair<std::string, Json>> effective_;  // null = absent
};

}  // namespace strata
