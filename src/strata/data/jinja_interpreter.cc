#include "strata/data/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "strata/base/error.h"
#include "strata/data/jinja_lexer.h"
#include "strata/data/jinja_text.h"

namespace strata::data::jinja {
namespace {

constexpr size_t kMaxWork = 10'000'000;
constexpr int kMaxDepth = 500;
constexpr int64_t kMaxRange = 1'000'000;

enum class Flow { normal, stop, next };

struct Frame {
  Variables variables;
  void set(const std::string& name, Value value) {
    for (auto& entry : variables) {
      if (entry.first != name) continue;
      entry.second = std::move(value);
      return;
    }
    variables.emplace_back(name, std::move(value));
  }
};

class Interpreter {
 public:
  Interpreter(Variables variables, int64_t now, const std::string& where)
      : now_(now), where_(where) {
    constexpr const char* kNames[] = {"range", "namespace", "dict", "raise_exception",
                                      "strftime_now"};
    frames_.emplace_back();
    for (size_t i = 0; i < builtins_.size(); ++i) {
      builtins_[i].name = kNames[i];
      frames_[0].set(kNames[i], Value::of(&builtins_[i]));
    }
    for (auto& entry : variables) frames_[0].set(entry.first, std::move(entry.second));
    frames_.emplace_back();  // what the template sets at its top
  }

  Output run(const Block& program) {
    execute(program);
    return std::move(output_);
  }

 private:
  // Counts nested evaluations; the destructor counts back.
  struct Level {
    Level(Interpreter* i, int line) : interpreter(i) {
      if (++i->depth_ > kMaxDepth) i->fail_limit(line, "nested evaluations", kMaxDepth);
    }
    ~Level() { --interpreter->depth_; }
    Interpreter* interpreter;
  };

  [[noreturn]] void fail_limit(int line, const char* what, size_t most) const {
    fail({.id = "chat_template.limit",
          .where = at_line(where_, line),
          .expected = fmt::format("at most {} {}", most, what),
          .got = "more",
          .cure = "Simplify the chat template or give rendered text",
          .code = Code::resource_exhausted});
  }
  void work(int line, size_t units) {
    work_ += units;
    if (work_ > kMaxWork) fail_limit(line, "steps of work", kMaxWork);
  }
  Site site(int line) const { return {where_, line}; }

  Flow execute(const Block& block);
  Flow execute(const Stmt& s);
  Flow run_branch(const Stmt& s);
  Flow run_loop(const Stmt& s);
  Values loop_items(const Stmt& s);
  void bind(const std::vector<std::string>& targets, Value value, int line);
  void assign(const Stmt& s);
  void set_attribute(const Stmt& s, Value value);
  void emit(const MarkedText& text);
  MarkedText captured(const Block& block, Flow* flow);

  Value evaluate(const Expr& e);
  Value evaluate_kind(const Expr& e);
  Value look_up(const std::string& name) const;
  Value run_slice(const Expr& e);
  Value run_binary(const Expr& e);
  Value run_unary(const Expr& e);
  bool run_comparison(const Expr& e);
  Value run_dict(const Expr& e);
  Value run_call(const Expr& e);
  Value run_builtin(const std::string& name, const Arguments& a, int line);
  Value run_range(const Arguments& a, int line);
  Value run_macro(const MacroDefinition& macro, const Arguments& a, int line);
  Arguments arguments_of(const Expr& e);

  std::array<MacroDefinition, 5> builtins_;
  std::vector<Frame> frames_;
  size_t floor_ = 0;  // frames below it are hidden, except the first two
  Output output_;
  MarkedText* out_ = &output_.text;
  int32_t message_ = -1;
  int64_t now_;
  const std::string& where_;
  int depth_ = 0;
  size_t work_ = 0;
};

void Interpreter::emit(const MarkedText& text) {
  if (text.empty()) return;
  size_t begin = out_->size();
  out_->append(text);
  if (out_ != &output_.text || message_ < 0) return;
  auto& turns = output_.turns;
  if (!turns.empty() && turns.back().message == message_) {
    turns.back().stretch.end = out_->size();
  } else {
    turns.push_back({message_, {begin, out_->size()}});
  }
}

Flow Interpreter::execute(const Block& block) {
  for (const Stmt& s : block) {
    Flow flow = execute(s);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Flow Interpreter::execute(const Stmt& s) {
  Level level(this, s.line);
  work(s.line, 1 + s.text.size() / 16);
  switch (s.kind) {
    case Stmt::Kind::text:
      emit(MarkedText(s.text));
      return Flow::normal;
    case Stmt::Kind::output:
      emit(to_text(evaluate(*s.value)));
      return Flow::normal;
    case Stmt::Kind::branch:
      return run_branch(s);
    case Stmt::Kind::loop:
      return run_loop(s);
    case Stmt::Kind::set:
      assign(s);
      return Flow::normal;
    case Stmt::Kind::set_block: {
      Flow flow = Flow::normal;
      // First the text: running the body moves the frames.
      Value text = Value::of(captured(s.body, &flow));
      frames_.back().set(s.targets[0], std::move(text));
      return flow;
    }
    case Stmt::Kind::macro:
      frames_.back().set(s.macro->name, Value::of(s.macro.get()));
      return Flow::normal;
    case Stmt::Kind::generation: {
      size_t begin = out_->size();
      Flow flow = execute(s.body);
      if (out_ == &output_.text) output_.generated.push_back({begin, out_->size()});
      return flow;
    }
    case Stmt::Kind::stop:
      return Flow::stop;
    case Stmt::Kind::next:
      return Flow::next;
  }
  return Flow::normal;
}

MarkedText Interpreter::captured(const Block& block, Flow* flow) {
  MarkedText text;
  MarkedText* outer = out_;
  out_ = &text;
  *flow = execute(block);
  out_ = outer;
  return text;
}

Flow Interpreter::run_branch(const Stmt& s) {
  for (const Arm& arm : s.arms) {
    if (arm.condition == nullptr || evaluate(*arm.condition).truth()) return execute(arm.body);
  }
  return Flow::normal;
}

void Interpreter::bind(const std::vector<std::string>& targets, Value value, int line) {
  if (targets.size() == 1) {
    frames_.back().set(targets[0], std::move(value));
    return;
  }
  Values parts = iterate(value, site(line));
  if (parts.size() != targets.size()) {
    type_error(site(line),
               fmt::format("{} values to unpack (there are {})", targets.size(), parts.size()),
               value);
  }
  for (size_t i = 0; i < targets.size(); ++i) frames_.back().set(targets[i], std::move(parts[i]));
}

// The items that the loop visits, already filtered by its `if`.
Values Interpreter::loop_items(const Stmt& s) {
  Values items = iterate(evaluate(*s.value), site(s.line));
  work(s.line, items.size());
  if (s.condition == nullptr) return items;
  Values kept;
  frames_.emplace_back();
  for (Value& item : items) {
    bind(s.targets, item, s.line);
    if (evaluate(*s.condition).truth()) kept.push_back(std::move(item));
  }
  frames_.pop_back();
  return kept;
}

namespace {

Value loop_value(const Values& items, size_t i) {
  auto index = static_cast<int64_t>(i);
  auto size = static_cast<int64_t>(items.size());
  Map loop;
  loop.items = {{"index", Value::of(index + 1)},
                {"index0", Value::of(index)},
                {"revindex", Value::of(size - index)},
                {"revindex0", Value::of(size - index - 1)},
                {"first", Value::of(index == 0)},
                {"last", Value::of(index + 1 == size)},
                {"length", Value::of(size)},
                {"previtem", i > 0 ? items[i - 1] : Value::undefined("previtem")},
                {"nextitem", i + 1 < items.size() ? items[i + 1] : Value::undefined("nextitem")}};
  return Value::map(std::move(loop));
}

}  // namespace

Flow Interpreter::run_loop(const Stmt& s) {
  Values items = loop_items(s);
  if (items.empty()) return execute(s.otherwise);
  int32_t outer = message_;
  Flow flow = Flow::normal;
  for (size_t i = 0; i < items.size() && flow != Flow::stop; ++i) {
    frames_.emplace_back();
    frames_.back().set("loop", loop_value(items, i));
    bind(s.targets, items[i], s.line);
    if (items[i].is_map() && items[i].map().message >= 0) message_ = items[i].map().message;
    flow = execute(s.body);
    message_ = outer;
    frames_.pop_back();
  }
  return Flow::normal;
}

void Interpreter::assign(const Stmt& s) {
  Value value = evaluate(*s.value);
  if (s.attribute.empty()) {
    bind(s.targets, std::move(value), s.line);
  } else {
    set_attribute(s, std::move(value));
  }
}

void Interpreter::set_attribute(const Stmt& s, Value value) {
  Value target = look_up(s.targets[0]);
  if (!target.is_map() || !target.map().is_namespace) {
    type_error(site(s.line), "a namespace() to set '" + s.attribute + "' of", target);
  }
  // Keeps values free of cycles.
  if (value.holds_namespace()) unsupported(where_, s.line, "a namespace inside a namespace");
  Map* map = target.namespace_map();
  map->depth = std::max(map->depth, value.depth() + 1);
  for (auto& entry : map->items) {
    if (entry.first != s.attribute) continue;
    entry.second = std::move(value);
    return;
  }
  map->items.emplace_back(s.attribute, std::move(value));
}

Value Interpreter::look_up(const std::string& name) const {
  for (size_t i = frames_.size(); i-- > 0;) {
    if (i < floor_ && i > 1) i = 1;
    for (const auto& entry : frames_[i].variables) {
      if (entry.first == name) return entry.second;
    }
  }
  return Value::undefined(name);
}

Value Interpreter::evaluate(const Expr& e) {
  Level level(this, e.line);
  Value value = evaluate_kind(e);
  work(e.line, 1 + value.weight());
  return value;
}

Value Interpreter::evaluate_kind(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::literal:
      return e.value;
    case Expr::Kind::name:
      return look_up(e.text);
    case Expr::Kind::list: {
      Values items;
      for (const ExprPtr& child : e.children) items.push_back(evaluate(*child));
      return Value::list(std::move(items), e.text == "tuple");
    }
    case Expr::Kind::dict:
      return run_dict(e);
    case Expr::Kind::attribute:
      return attribute(evaluate(*e.children[0]), e.text, site(e.line));
    case Expr::Kind::item: {
      Value value = evaluate(*e.children[0]);
      return item(value, evaluate(*e.children[1]), site(e.line));
    }
    case Expr::Kind::slice:
      return run_slice(e);
    case Expr::Kind::call:
      return run_call(e);
    case Expr::Kind::filter: {
      Value value = evaluate(*e.children[0]);
      return call_filter(e.text, value, arguments_of(e), site(e.line));
    }
    case Expr::Kind::test: {
      Value value = evaluate(*e.children[0]);
      return Value::of(call_test(e.text, value, arguments_of(e), site(e.line)));
    }
    case Expr::Kind::unary:
      return run_unary(e);
    case Expr::Kind::binary:
      return run_binary(e);
    case Expr::Kind::comparison:
      return Value::of(run_comparison(e));
    case Expr::Kind::conditional:
      if (evaluate(*e.children[1]).truth()) return evaluate(*e.children[0]);
      return e.children[2] == nullptr ? Value::undefined("else") : evaluate(*e.children[2]);
  }
  return {};
}

Value Interpreter::run_dict(const Expr& e) {
  Map map;
  for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
    Value key = evaluate(*e.children[i]);
    if (!key.is_text()) unsupported(where_, e.line, "a dict key that is no text");
    Value value = evaluate(*e.children[i + 1]);
    const std::string& name = key.text().text();
    auto known = std::find_if(map.items.begin(), map.items.end(),
                              [&name](const auto& entry) { return entry.first == name; });
    if (known != map.items.end()) {
      known->second = std::move(value);
    } else {
      map.items.emplace_back(name, std::move(value));
    }
    if (map.origin == kFromTemplate) map.origin = key.text().origin();
  }
  return Value::map(std::move(map));
}

Value Interpreter::run_slice(const Expr& e) {
  Value value = evaluate(*e.children[0]);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (e.children[i + 1] == nullptr) continue;
    Value bound = evaluate(*e.children[i + 1]);
    if (bound.is_none()) continue;
    if (!bound.is_int()) type_error(site(e.line), "an integer in a slice", bound);
    bounds[i] = bound.as_int();
  }
  int64_t step = bounds[2].value_or(1);
  if (step == 0) type_error(site(e.line), "a slice step other than 0", Value::of(int64_t{0}));
  if (value.is_text()) return Value::of(slice(value.text(), bounds[0], bounds[1], step));
  if (!value.is_list()) type_error(site(e.line), "a text or list to slice", value);
  Values out;
  for (size_t i : slice_indices(value.items().size(), bounds[0], bounds[1], step)) {
    out.push_back(value.items()[i]);
  }
  return Value::list(std::move(out));
}

Value Interpreter::run_unary(const Expr& e) {
  Value value = evaluate(*e.children[0]);
  if (e.text == "not") return Value::of(!value.truth());
  if (!value.is_number()) type_error(site(e.line), "a number behind '" + e.text + "'", value);
  Value zero = Value::of(int64_t{0});
  return arithmetic(e.text, value.is_real() ? Value::of(0.0) : zero, value, site(e.line));
}

Value Interpreter::run_binary(const Expr& e) {
  Value left = evaluate(*e.children[0]);
  if (e.text == "and") return left.truth() ? evaluate(*e.children[1]) : left;
  if (e.text == "or") return left.truth() ? left : evaluate(*e.children[1]);
  return arithmetic(e.text, left, evaluate(*e.children[1]), site(e.line));
}

bool Interpreter::run_comparison(const Expr& e) {
  Value left = evaluate(*e.children[0]);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.children[i + 1]);
    if (!compare(e.ops[i], left, right, site(e.line))) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::arguments_of(const Expr& e) {
  Arguments a;
  for (size_t i = 1; i < e.children.size(); ++i) a.positional.push_back(evaluate(*e.children[i]));
  for (const auto& entry : e.named) a.named.emplace_back(entry.first, evaluate(*entry.second));
  return a;
}

Value Interpreter::run_call(const Expr& e) {
  const Expr& callee = *e.children[0];
  if (callee.kind == Expr::Kind::attribute) {
    Value object = evaluate(*callee.children[0]);
    bool has_methods = object.is_text() || object.is_list() || object.is_map();
    const Value* member = object.is_map() ? object.map().find(callee.text) : nullptr;
    if (has_methods && (member == nullptr || !member->is_macro())) {
      return call_method(callee.text, object, arguments_of(e), site(e.line));
    }
  }
  Value function = evaluate(callee);
  if (!function.is_macro()) type_error(site(e.line), "something to call", function);
  const MacroDefinition* macro = function.macro();
  Arguments a = arguments_of(e);
  bool builtin = macro >= builtins_.data() && macro < builtins_.data() + builtins_.size();
  return builtin ? run_builtin(macro->name, a, e.line) : run_macro(*macro, a, e.line);
}

Value Interpreter::run_range(const Arguments& a, int line) {
  int64_t bounds[3] = {0, 0, 1};
  size_t count = a.positional.size();
  for (size_t i = 0; i < count && count <= 3; ++i) {
    if (!a.positional[i].is_int()) type_error(site(line), "integers in range()", a.positional[i]);
    bounds[count == 1 ? 1 : i] = a.positional[i].as_int();
  }
  if (count == 0 || count > 3 || bounds[2] == 0) {
    type_error(site(line), "range(stop), range(start, stop) or range(start, stop, step)",
               Value::of(static_cast<int64_t>(count)));
  }
  Values out;
  for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (static_cast<int64_t>(out.size()) >= kMaxRange)
      fail_limit(line, "steps of range()", kMaxRange);
    out.push_back(Value::of(i));
    if (__builtin_add_overflow(i, bounds[2], &i)) break;
  }
  return Value::list(std::move(out));
}

namespace {

std::string time_text(int64_t now, const std::string& format) {
  std::time_t time = now;
  std::tm parts{};
  localtime_r(&time, &parts);
  std::string text(std::min<size_t>(format.size(), 256) * 8 + 64, '\0');
  std::string shortened = format.substr(0, 256);
  text.resize(std::strftime(text.data(), text.size(), shortened.c_str(), &parts));
  return text;
}

}  // namespace

Value Interpreter::run_builtin(const std::string& name, const Arguments& a, int line) {
  if (name == "range") return run_range(a, line);
  if (name == "raise_exception") {
    const Value* message = a.get(0, "message");
    fail({.id = "chat_template.raised",
          .where = at_line(where_, line),
          .expected = "messages that the chat template accepts",
          .got = "its refusal: " + (message == nullptr ? std::string() : to_text(*message).text()),
          .cure = "Change the messages as it asks",
          .code = Code::failed_precondition});
  }
  if (name == "strftime_now") {
    const Value* format = a.get(0, "format");
    if (format == nullptr) type_error(site(line), "a time format", Value::none());
    return Value::of(time_text(now_, to_text(*format).text()));
  }
  Map map;
  if (!a.positional.empty()) {
    if (!a.positional[0].is_map()) type_error(site(line), "a dict", a.positional[0]);
    map = a.positional[0].map();
  }
  map.is_namespace = name == "namespace";
  map.message = -1;
  if (map.is_namespace && map.holds_namespace) {
    unsupported(where_, line, "a namespace inside a namespace");
  }
  for (const auto& entry : a.named) {
    if (map.is_namespace && entry.second.holds_namespace()) {
      unsupported(where_, line, "a namespace inside a namespace");
    }
    map.items.emplace_back(entry.first, entry.second);
  }
  return Value::map(std::move(map));
}

Value Interpreter::run_macro(const MacroDefinition& macro, const Arguments& a, int line) {
  if (a.positional.size() > macro.parameters.size()) {
    type_error(
        site(line),
        fmt::format("at most {} arguments for the macro '{}'", macro.parameters.size(), macro.name),
        Value::none());
  }
  Frame frame;
  size_t first_default = macro.parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Value* given = a.get(i, macro.parameters[i]);
    Value value = Value::undefined(macro.parameters[i]);
    if (given != nullptr) {
      value = *given;
    } else if (i >= first_default) {
      value = evaluate(*macro.defaults[i - first_default]);
    }
    frame.set(macro.parameters[i], std::move(value));
  }
  size_t outer_floor = floor_;
  floor_ = frames_.size();
  frames_.push_back(std::move(frame));
  Flow flow = Flow::normal;
  MarkedText text = captured(macro.body, &flow);
  frames_.pop_back();
  floor_ = outer_floor;
  return Value::of(std::move(text));
}

}  // namespace

Output interpret(const Block& program, Variables variables, int64_t now, const std::string& where) {
  return Interpreter(std::move(variables), now, where).run(program);
}

}  // namespace strata::data::jinja
