#include "layers/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/strings.h"

namespace strata::layers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestFile = 600;

// "name: a b c" lines as name → {a, b, c}; '#' starts a comment line.
std::map<std::string, std::set<std::string>> read_table(const fs::path& path) {
  std::map<std::string, std::set<std::string>> table;
  int number = 0;
  for (const std::string& line : split(read_file(path), '\n')) {
    ++number;
    if (trim(line).empty() || line[0] == '#') continue;
    size_t colon = line.find(": ");
    if (colon == std::string::npos && line.back() == ':') colon = line.size() - 1;
    require(colon != std::string::npos, {.id = "layers.table",
                                         .where = fmt::format("{}:{}", path.string(), number),
                                         .expected = "name: entries",
                                         .got = line});
    std::set<std::string>& entries = table[line.substr(0, colon)];
    for (const std::string& entry : split(std::string_view(line).substr(colon + 1), ' ')) {
      if (!entry.empty()) entries.insert(entry);
    }
  }
  return table;
}

// Replaces "*" and "-room" by the rooms they stand for.
void expand(Rules& rules) {
  for (auto& [room, allowed] : rules.rooms) {
    if (allowed.erase("*") == 0) continue;
    std::set<std::string> all;
    for (const auto& row : rules.rooms) all.insert(row.first);
    for (const std::string& entry : allowed) {
      if (entry[0] == '-') all.erase(entry.substr(1));
    }
    allowed = all;
  }
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

bool starts_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

struct Include {
  std::string name;
  bool quoted = false;
};

// The header of an #include line; an empty name for any other line.
Include parse_include(std::string_view line) {
  line = trim(line);
  if (!starts_with(line, "#")) return {};
  line = trim(line.substr(1));
  if (!starts_with(line, "include")) return {};
  line = trim(line.substr(7));
  if (line.size() < 2) return {};
  char close = line[0] == '<' ? '>' : line[0];
  return {std::string(line.substr(1, line.find(close, 1) - 1)), line[0] == '"'};
}

// x_test.cc, and what only tests include: x_for_test.h, test_x.h.
bool is_test_path(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  return ends_with(name, "_test.cc") || ends_with(name, "_for_test.h") ||
         ends_with(name, "_for_test.cc") || starts_with(name, "test_");
}

bool is_test(const SourceFile& file) { return is_test_path(file.path); }

// The rule that including room `target` breaks; empty when it is allowed.
std::string broken_room_rule(const SourceFile& file, const std::string& room,
                             const std::string& target, const Rules& rules) {
  if (target == room || target == "base") return "";
  if (target == "testing") {
    return is_test(file) ? "" : "room testing is for tests and bench only";
  }
  auto row = rules.rooms.find(room);
  if (row != rules.rooms.end() && row->second.count(target) > 0) return "";
  return fmt::format("room {} may not include room {}", room, target);
}

std::string broken_header_rule(const SourceFile& file, const std::string& room,
                               const Include& include, const Rules& rules) {
  for (const auto& [prefix, allowed] : rules.headers) {
    if (!starts_with(include.name, prefix)) continue;
    bool lawful = allowed.count(room) > 0 || (is_test(file) && allowed.count("tests") > 0);
    if (lawful) return "";
    std::vector<std::string> names(allowed.begin(), allowed.end());
    return fmt::format("<{}> is kept to {}", include.name, join(names, ", "));
  }
  // What protoc made for the room itself.
  if (ends_with(include.name, ".pb.h")) return "";
  if (include.quoted) return fmt::format("\"{}\" is no path below src", include.name);
  return "";
}

bool mentions(std::string line, std::initializer_list<const char*> words) {
  std::transform(line.begin(), line.end(), line.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return line.find(word) != std::string::npos; });
}

void check_file(const SourceFile& file, const Rules& rules, std::vector<Finding>& out) {
  std::string room = file.path.substr(0, file.path.find('/'));
  if (rules.rooms.count(room) == 0) {
    out.push_back({file.path, 0, "room " + room + " has no row in the table of rooms"});
  }
  std::vector<std::string> lines = split(file.text, '\n');
  // The text ends with a line break, so the last part is empty.
  if (lines.size() > kLongestFile + 1) {
    out.push_back(
        {file.path, 0, fmt::format("{} lines, more than {}", lines.size() - 1, kLongestFile)});
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    auto number = static_cast<int>(i) + 1;
    bool of_model = room == "models" && !is_test(file);
    if (of_model && mentions(lines[i], {"scan", "stacked"})) {
      out.push_back({file.path, number, "a model file may not speak of scanning or stacked axes"});
    }
    if (of_model && mentions(lines[i], {"fsdp", "\"tensor\"", "\"data\""})) {
      out.push_back({file.path, number, "a model file may not speak of mesh axes"});
    }
    if (of_model && mentions(lines[i], {"lora", "adapter", "fake_quant", "FakeQuant"})) {
      out.push_back({file.path, number, "a model file may not speak of what transforms add"});
    }
    Include include = parse_include(lines[i]);
    if (include.name.empty()) continue;
    std::vector<std::string> parts = split(include.name, '/');
    bool own = parts[0] == "strata" && parts.size() > 2;
    std::string rule = own ? broken_room_rule(file, room, parts[1], rules)
                           : broken_header_rule(file, room, include, rules);
    if (own && is_test_path(include.name) && !is_test(file) && room != "testing") {
      rule = "\"" + include.name + "\" is for tests only";
    }
    if (!rule.empty()) out.push_back({file.path, number, rule});
  }
}

}  // namespace

std::string Finding::text() const {
  std::string place = line > 0 ? fmt::format("{}:{}", file, line) : file;
  return "src/strata/" + place + ": " + rule;
}

Rules read_rules(const fs::path& directory) {
  Rules rules{read_table(directory / "rooms.txt"), read_table(directory / "headers.txt")};
  expand(rules);
  return rules;
}

std::vector<SourceFile> read_sources(const fs::path& root) {
  std::vector<SourceFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cc")) continue;
    files.push_back({fs::relative(entry.path(), root).generic_string(), read_file(entry.path())});
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<Finding> check(const std::vector<SourceFile>& files, const Rules& rules) {
  std::vector<Finding> findings;
  for (const SourceFile& file : files) check_file(file, rules, findings);
  return findings;
}

}  // namespace strata::layers
