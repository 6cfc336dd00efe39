// JSON (nlohmann-json, keys keep their order) with errors that name the file and the key.
// The library's header is included here only.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace strata {

using Json = nlohmann::ordered_json;

// What to do with a key that an object holds twice: the last one wins, or data_loss naming it.
enum class DuplicateKeys { last_wins, refuse };

// Parses `text`; `where` (a path, or "file:line") prefixes the error. Throws data_loss naming the
// byte offset. Nesting deeper than 512 levels is refused, so that no input exhausts the stack.
Json parse_json(std::string_view text, const std::string& where,
                DuplicateKeys duplicates = DuplicateKeys::last_wins);

// Reads and parses a file. Throws not_found, permission_denied or data_loss naming the path.
Json read_json(const std::filesystem::path& path);

// Typed access to `object[key]`: errors name where, key, expected and actual type.
// `get` throws not_found when the key is absent or null; `get_or` returns the fallback then.
int64_t get_int(const Json& object, const std::string& key, const std::string& where);
int64_t get_int_or(const Json& object, const std::string& key, int64_t fallback,
                   const std::string& where);
double get_double(const Json& object, const std::string& key, const std::string& where);
double get_double_or(const Json& object, const std::string& key, double fallback,
                     const std::string& where);
bool get_bool_or(const Json& object, const std::string& key, bool fallback,
                 const std::string& where);
std::string get_string(const Json& object, const std::string& key, const std::string& where);
std::string get_string_or(const Json& object, const std::string& key, const std::string& fallback,
                          const std::string& where);

}  // namespace strata
