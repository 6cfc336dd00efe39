#include "strata/rl/reward_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "strata/base/strings.h"

namespace strata::rl {
namespace {

// What an unanswered sample holds until its answer comes.
constexpr std::string_view kUnanswered = "no answer";

std::string question(const RewardSample& sample, bool last) {
  Json messages = Json::array();
  for (const Message& m : sample.example->messages) {
    messages.push_back({{"role", m.role}, {"content", m.content}});
  }
  Json line = {{"id", sample.id},
               {"task", sample.example->task},
               {"messages", messages},
               {"answer", sample.example->answer},
               {"meta", sample.example->meta},
               {"completion", std::string(sample.completion)},
               {"finished", sample.finished},
               {"tokens", sample.tokens},
               {"last", last}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const std::string& line) {
  return is_utf8(line) ? line.substr(0, 200) : "bytes that are not UTF-8";
}

[[noreturn]] void fail_junk(const std::string& name, const std::string& expected,
                            const std::string& got) {
  fail({.id = "rl.reward_program_answer",
        .where = "reward program '" + name + "'",
        .expected = expected,
        .got = "'" + got + "'",
        .cure = "Only answers may go to its standard output; log to standard error",
        .code = Code::data_loss});
}

// Python and others print NaN and Infinity, which are no JSON: read as null, they fail one sample
// and not the batch.
std::string without_nan(std::string line) {
  for (std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
    for (size_t at = line.find(word); at != std::string::npos; at = line.find(word, at)) {
      line.replace(at, word.size(), "null");
    }
  }
  return line;
}

Json parse_answer(const std::string& name, const std::string& line) {
  try {
    return parse_json(line, "reward program");
  } catch (const Error&) {
  }
  try {
    return parse_json(without_nan(line), "reward program");
  } catch (const Error&) {
    fail_junk(name, "a line of JSON", shown(line));
  }
}

RewardValue value_of(const std::string& name, const Json& answer) {
  if (answer.contains("error")) {
    const Json& error = answer["error"];
    std::string text = error.is_string() ? error.get<std::string>() : error.dump();
    return {.failure = "program '" + name + "' says: " + text};
  }
  const Json& reward = answer.contains("reward") ? answer["reward"] : Json();
  if (reward.is_number()) return {.value = reward.get<double>()};
  return {.failure = "program '" + name + "' gave no number: " + shown(answer.dump())};
}

}  // namespace

ProgramReward::ProgramReward(ProgramRewardOptions options) : options_(std::move(options)) {
  double seconds = options_.deadline_seconds;
  require(seconds > 0 && seconds <= 1e6, {.id = "rl.reward_program_deadline",
                                          .where = "reward program",
                                          .expected = "a deadline above 0 and up to 1e6 seconds",
                                          .got = fmt::format("{}", seconds)});
  program_ = std::make_unique<ChildProcess>(options_.command);
}

double ProgramReward::left(double deadline) const {
  return std::max(deadline - clock_.seconds(), 0.0);
}

void ProgramReward::ask(std::span<const RewardSample> samples, double deadline) {
  if (!program_) program_ = std::make_unique<ChildProcess>(options_.command);
  for (size_t i = 0; i < samples.size(); ++i) {
    program_->write_line(question(samples[i], i + 1 == samples.size()), left(deadline));
  }
}

Json ProgramReward::read_answer(double deadline) {
  std::string line = program_->read_line(left(deadline));
  Json answer = parse_answer(options_.command.front(), line);
  bool fine = answer.is_object() && answer.contains("id") && answer["id"].is_string();
  if (!fine) fail_junk(options_.command.front(), "an object with the string 'id'", shown(line));
  return answer;
}

void ProgramReward::read_answers(std::span<const RewardSample> samples, double deadline,
                                 std::vector<RewardValue>& values) {
  std::unordered_map<std::string, size_t> open;
  for (size_t i = 0; i < samples.size(); ++i) open.emplace(samples[i].id, i);
  invariant(open.size() == samples.size(), "rl.reward_program_ids", "sample ids that differ");
  while (!open.empty()) {
    Json answer = read_answer(deadline);
    auto it = open.find(answer["id"].get<std::string>());
    if (it == open.end())
      fail_junk(options_.command.front(), "the id of an open question", shown(answer.dump()));
    values[it->second] = value_of(options_.command.front(), answer);
    open.erase(it);
  }
}

std::vector<RewardValue> ProgramReward::score(std::span<const RewardSample> samples) {
  std::vector<RewardValue> values(samples.size(), {.failure = std::string(kUnanswered)});
  double deadline = clock_.seconds() + options_.deadline_seconds;
  try {
    ask(samples, deadline);
    read_answers(samples, deadline, values);
  } catch (const Error& e) {
    // What it prints next cannot be matched to a question any more.
    program_.reset();
    for (RewardValue& v : values) {
      if (v.failure == kUnanswered) v = {.failure = e.what(), .code = e.code()};
    }
  }
  return values;
}

}  // namespace strata::rl
