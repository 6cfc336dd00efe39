#include "strata/rl/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/strings.h"
#include "strata/rl/machine.h"

namespace strata::rl {
namespace {

double share(double part, size_t whole) { return part / static_cast<double>(whole); }

[[noreturn]] void fail_line(const std::string& where, const std::string& got) {
  fail({.id = "rl.metrics_line",
        .where = where,
        .expected = "a JSON object with an integer 'step' and numbers",
        .got = got,
        .code = Code::data_loss});
}

StepMetrics parse_line(const std::string& line, const std::string& where) {
  Json object;
  try {
    object = parse_json(line, where);
  } catch (const Error& e) {
    fail_line(where, e.message());
  }
  if (!object.is_object()) fail_line(where, object.type_name());
  StepMetrics m;
  for (const auto& item : object.items()) {
    const Json& value = item.value();
    if (!value.is_number() && !value.is_null()) fail_line(where, "'" + item.key() + "'");
    double number =
        value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    if (item.key() == "time") {
      m.wall_time = number;
    } else if (item.key() != "step") {
      m.scalars.push_back({item.key(), number});
    }
  }
  if (!object.contains("step") || !object["step"].is_number_integer()) fail_line(where, "no step");
  m.step = object["step"].get<int64_t>();
  return m;
}

// The text with the steps before `resume_at` only.
std::string lines_before(const std::filesystem::path& path, int64_t resume_at) {
  std::string kept;
  for (const StepMetrics& m : read_json_lines(path)) {
    if (m.step < resume_at) kept += json_line(m) + "\n";
  }
  return kept;
}

// Prepares the file for the AppendFile that follows and says how to open it.
AppendFile::Mode prepare(const std::filesystem::path& path, std::optional<int64_t> resume_at) {
  if (!resume_at) return AppendFile::Mode::fresh;
  if (std::filesystem::exists(path)) write_file_atomically(path, lines_before(path, *resume_at));
  return AppendFile::Mode::extend;
}

}  // namespace

StepMetrics StepMetrics::now(int64_t step) {
  auto since = std::chrono::system_clock::now().time_since_epoch();
  StepMetrics m;
  m.step = step;
  m.wall_time = std::chrono::duration<double>(since).count();
  return m;
}

void StepMetrics::add(std::string_view name, double value) {
  scalars.push_back({std::string(name), value});
}

std::optional<double> StepMetrics::find(std::string_view name) const {
  for (const Scalar& s : scalars) {
    if (s.name == name) return s.value;
  }
  return std::nullopt;
}

Json to_json(const StepMetrics& metrics) {
  Json scalars = Json::array();
  for (const Scalar& s : metrics.scalars) scalars.push_back({s.name, s.value});
  return {{"step", metrics.step}, {"time", metrics.wall_time}, {"scalars", scalars}};
}

StepMetrics metrics_from(const Json& json, const std::string& where) {
  StepMetrics out;
  out.step = get_int(json, "step", where);
  out.wall_time = get_double(json, "time", where);
  try {
    for (const Json& s : json.at("scalars")) {
      const Json& v = s.at(1);
      out.add(s.at(0).get<std::string>(),
              v.is_null() ? std::numeric_limits<double>::quiet_NaN() : v.get<double>());
    }
  } catch (const Json::exception& e) {
    fail({.id = "rl.saved_metrics",
          .where = where + ", metrics of a step",
          .expected = "'scalars', a list of names and numbers",
          .got = e.what(),
          .code = Code::data_loss});
  }
  return out;
}

void add_rewards(StepMetrics& metrics, const RewardTable& table) {
  for (size_t k = 0; k < table.names.size(); ++k) {
    const std::vector<double>& values = table.values[k];
    if (values.empty()) continue;
    double sum = 0;
    for (double v : values) sum += v;
    metrics.add("reward/" + table.names[k], share(sum, values.size()));
    if (table.failures[k] > 0) {
      metrics.add("reward_failures/" + table.names[k], static_cast<double>(table.failures[k]));
    }
  }
}

void add_advantages(StepMetrics& metrics, const AdvantageStats& stats) {
  metrics.add("reward/mean", stats.reward_mean);
  metrics.add("reward/std", stats.reward_std);
  metrics.add("advantage/mean", stats.mean);
  metrics.add("advantage/std", stats.std);
  metrics.add("advantage/min", stats.min);
  metrics.add("advantage/max", stats.max);
  if (stats.groups > 0) {
    auto zero = static_cast<double>(stats.zero_std_groups);
    metrics.add("solved/zero_std", share(zero, static_cast<size_t>(stats.groups)));
  }
}

void add_solved(StepMetrics& metrics, const SolvedStats& stats) {
  metrics.add("solved/samples", stats.samples);
  metrics.add("solved/all", stats.all);
  metrics.add("solved/none", stats.none);
}

void add_completions(StepMetrics& metrics, std::span<const CompletionMask> completions) {
  if (completions.empty()) return;
  double sum = 0, cut = 0, longest = 0;
  for (const CompletionMask& c : completions) {
    sum += static_cast<double>(c.length);
    longest = std::max(longest, static_cast<double>(c.length));
    cut += c.finished ? 0 : 1;
  }
  metrics.add("completion/mean", share(sum, completions.size()));
  metrics.add("completion/max", longest);
  metrics.add("completion/truncated", share(cut, completions.size()));
}

void add_memory(StepMetrics& metrics) {
  MemoryUse use = memory_use();
  metrics.add("memory/resident_gib", static_cast<double>(use.resident_bytes) / (1 << 30));
  metrics.add("memory/peak_gib", static_cast<double>(use.peak_bytes) / (1 << 30));
}

std::string json_line(const StepMetrics& metrics) {
  Json line = {{"step", metrics.step}, {"time", metrics.wall_time}};
  for (const Scalar& s : metrics.scalars) line[s.name] = s.value;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<StepMetrics> read_json_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines = split(read_file(path), '\n');
  // Behind the last break: nothing, or a line that was cut short.
  lines.pop_back();
  std::vector<StepMetrics> steps;
  for (size_t i = 0; i < lines.size(); ++i) {
    steps.push_back(parse_line(lines[i], fmt::format("{}:{}", path.string(), i + 1)));
  }
  return steps;
}

JsonLinesSink::JsonLinesSink(std::filesystem::path path, std::optional<int64_t> resume_at)
    : file_(path, prepare(path, resume_at)) {}

void JsonLinesSink::write(const StepMetrics& metrics) { file_.append(json_line(metrics) + "\n"); }

void MetricsLog::write(StepMetrics metrics) {
  std::unordered_set<std::string_view> seen = {"step", "time"};
  for (const Scalar& s : metrics.scalars) {
    if (s.name.empty() || !seen.insert(s.name).second) {
      fail({.id = "rl.metrics_name",
            .where = fmt::format("metrics of step {}", metrics.step),
            .expected = "a name of its own for each value",
            .got = "'" + s.name + "' again"});
    }
  }
  for (const std::unique_ptr<MetricsSink>& sink : sinks_) sink->write(metrics);
  history_.push_back(std::move(metrics));
}

}  // namespace strata::rl
