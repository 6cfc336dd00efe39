#include "strata/sharding/partition_spec.h"

#include <fmt/format.h>

#include <cctype>

#include "strata/base/error.h"
#include "strata/base/strings.h"
#include "strata/sharding/box.h"

namespace strata::sharding {
namespace {

using Names = std::vector<std::string>;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// One pass over the text. The forms differ in brackets and quotes only.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), rest_(trim(text)) {}

  PartitionSpec spec() {
    if (rest_.starts_with("#sdy.sharding<")) return shardy();
    for (std::string_view name : {"jax.sharding.PartitionSpec", "PartitionSpec", "P"}) {
      if (rest_.starts_with(std::string(name) + "(")) rest_.remove_prefix(name.size());
    }
    PartitionSpec out = brackets() ? list(closing(take())) : list('\0');
    if (!at_end()) refuse("nothing after the spec");
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    size_t at = static_cast<size_t>(rest_.data() - text_.data());
    fail({.id = "sharding.spec",
          .where = fmt::format("partition spec \"{}\"", text_),
          .expected = expected,
          .got = at_end() ? "the end" : fmt::format("'{}' at byte {}", rest_.substr(0, 12), at),
          .cure = "Write it as PartitionSpec('axis', None, ('axis', 'axis')), as a list, or as "
                  "Shardy's #sdy.sharding<@mesh, [{\"axis\"}, {}]>"});
  }

  [[noreturn]] void not_done(const char* what) const {
    unimplemented({.id = "sharding.spec_form",
                   .where = fmt::format("partition spec \"{}\"", text_),
                   .expected = "whole mesh axes for each dim, and nothing else",
                   .got = what});
  }

  bool at_end() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  void skip() { rest_ = trim_left(rest_); }
  char take() {
    char c = peek();
    rest_.remove_prefix(1);
    skip();
    return c;
  }
  bool accept(char c) {
    if (peek() != c || at_end()) return false;
    take();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(std::string("'") + c + "'");
  }
  bool brackets() const { return peek() == '(' || peek() == '[' || peek() == '{'; }
  static char closing(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }
  static std::string_view trim_left(std::string_view s) {
    size_t n = 0;
    while (n < s.size() && std::isspace(static_cast<unsigned char>(s[n])) != 0) ++n;
    return s.substr(n);
  }

  // Dims up to `close`, or to the end of the text.
  PartitionSpec list(char close) {
    PartitionSpec out;
    while (!ends(close)) {
      out.dims.push_back(dim());
      if (!ends(close)) expect(',');
    }
    if (close != '\0') take();
    return out;
  }

  bool ends(char close) const { return close == '\0' ? at_end() : !at_end() && peek() == close; }

  Names dim() {
    if (!brackets()) return words();
    bool set = peek() == '{';  // Shardy's
    char close = closing(take());
    Names names;
    while (!ends(close)) {
      if (set && accept('?')) continue;  // what is left open, we close
      Names more = words();
      names.insert(names.end(), more.begin(), more.end());
      if (!ends(close)) expect(',');
    }
    take();
    if (set && peek() == 'p') not_done("a priority");
    return names;
  }

  // None, or names joined by '+'.
  Names words() {
    Names names = {word()};
    bool none = names[0] == "None" || names[0] == "null";
    while (accept('+')) names.push_back(word());
    return none && names.size() == 1 ? Names{} : names;
  }

  std::string word() {
    char quote = peek();
    if (quote == '\'' || quote == '"') return quoted(quote);
    size_t n = 0;
    while (n < rest_.size() && is_word(rest_[n])) ++n;
    if (n == 0) refuse("a name, None or a list of names");
    return taken(n);
  }

  std::string quoted(char quote) {
    rest_.remove_prefix(1);
    size_t end = rest_.find(quote);
    if (end == std::string_view::npos || end == 0) refuse("a name in quotes");
    std::string name(rest_.substr(0, end));
    for (char c : name) {
      if (!is_word(c)) refuse("a name of letters, digits, '_', '-' and '.'");
    }
    rest_.remove_prefix(end + 1);
    skip();
    if (peek() == ':') not_done("a sub-axis");
    return name;
  }

  std::string taken(size_t n) {
    std::string name(rest_.substr(0, n));
    rest_.remove_prefix(n);
    skip();
    return name;
  }

  // #sdy.sharding<@mesh, [{"a"}, {}]>
  PartitionSpec shardy() {
    rest_.remove_prefix(std::string_view("#sdy.sharding<").size());
    skip();
    expect('@');
    word();
    expect(',');
    expect('[');
    PartitionSpec out = list(']');
    if (peek() == ',') not_done("replicated or unreduced axes");
    expect('>');
    if (!at_end()) refuse("nothing after the spec");
    return out;
  }

  std::string_view text_, rest_;
};

bool all_axes(const Names& names, const Mesh& mesh) {
  for (const std::string& name : names) {
    if (!mesh.has(name)) return false;
  }
  return true;
}

void put(Dim& dim, const Names& names, const Mesh& mesh, const std::string& where) {
  if (all_axes(names, mesh)) {
    dim.axes = names;
    return;
  }
  if (names.size() == 1) {
    dim.name = names[0];
    dim.axes.clear();
    return;
  }
  std::vector<std::string> known;
  for (const MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
  fail({.id = "sharding.spec_names",
        .where = where,
        .expected = "axes of the mesh, one of " + join(known, ", ") + ", or one logical name",
        .got = join(names, ", ")});
}

}  // namespace

PartitionSpec parse_partition_spec(std::string_view text) { return Reader(text).spec(); }

PartitionSpec partition_spec_from_json(const Json& json, const std::string& where) {
  try {
    return parse_partition_spec(json.dump());
  } catch (Error& e) {
    e.add_context("in " + where);
    throw;
  }
}

std::string text_of(const PartitionSpec& spec) {
  std::string text;
  for (const Names& names : spec.dims) {
    if (!text.empty()) text += ", ";
    if (names.empty()) text += "None";
    if (names.size() == 1) text += "'" + names[0] + "'";
    if (names.size() > 1) text += "('" + join(names, "', '") + "')";
  }
  return "P(" + text + ")";
}

PartitionSpec spec_of(const ParamType& type) {
  PartitionSpec spec;
  for (const Dim& dim : type.dims) spec.dims.push_back(dim.axes);
  return spec;
}

ParamType with_spec(const ParamType& type, const PartitionSpec& spec, const Mesh& mesh,
                    const std::string& path) {
  ParamType out = type;
  size_t next = 0;
  for (size_t i = 0; i < out.dims.size(); ++i) {
    Dim& dim = out.dims[i];
    if (dim.role != Role::none) continue;
    Names names = next < spec.dims.size() ? spec.dims[next] : Names{};
    ++next;
    if (names.empty()) {
      dim.axes.clear();
    } else {
      put(dim, names, mesh, fmt::format("{}, dim {}", path, i));
    }
  }
  require(spec.dims.size() <= next,
          {.id = "sharding.spec_rank",
           .where = path,
           .expected = fmt::format("at most {} entries, for {}", next, text_of(type)),
           .got = text_of(spec),
           .cure = "A spec is that of one layer, without the layer dim"});
  check_layout(out, mesh, path);
  return out;
}

SpecRule parse_spec_rule(std::string_view text) {
  size_t equals = text.find('=');
  std::string glob(trim(text.substr(0, equals)));
  require(equals != std::string_view::npos && !glob.empty(),
          {.id = "sharding.spec_rule",
           .where = "sharding spec '" + std::string(text) + "'",
           .expected = "GLOB = SPEC, such as *.q_proj.weight = P('tensor', 'fsdp')",
           .got = "'" + std::string(text) + "'"});
  return {std::move(glob), parse_partition_spec(text.substr(equals + 1))};
}

}  // namespace strata::sharding
