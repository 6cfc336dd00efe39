#include "strata/rl/grpo_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

// In the order of a batch's terms.
constexpr float TokenTerm::*kTerms[] = {&TokenTerm::weight, &TokenTerm::advantage,
                                        &TokenTerm::old_logprob, &TokenTerm::sampler_logprob,
                                        &TokenTerm::reference_logprob};
constexpr int64_t kTermCount = 5;

[[noreturn]] void damaged(const std::string& where, std::string expected, std::string got) {
  fail({.id = "rl.saved_step",
        .where = where + ", the step under way",
        .expected = std::move(expected),
        .got = std::move(got),
        .code = Code::data_loss});
}

const HostTensor& find(std::span<const StepTensor> tensors, const std::string& name, DType dtype,
                       const std::string& where) {
  for (const StepTensor& t : tensors) {
    if (t.name == name && t.value.dtype() == dtype) return t.value;
  }
  damaged(where, fmt::format("a tensor '{}' of {}", name, name_of(dtype)), "none");
}

// Takes the next numbers of a tensor.
template <class T>
class Reader {
 public:
  Reader(const HostTensor& tensor, const std::string& name, const std::string& where)
      : values_(tensor.data<T>()), name_(name), where_(where) {}

  std::vector<T> take(int64_t n) {
    const auto left = static_cast<int64_t>(values_.size() - at_);
    if (n < 0 || n > left) damaged(where_, fmt::format("{} more of '{}'", n, name_), left_text());
    auto begin = values_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += static_cast<size_t>(n);
    return {begin, begin + n};
  }
  void expect_end() const {
    if (at_ != values_.size()) damaged(where_, "no more of '" + name_ + "'", left_text());
  }

 private:
  std::string left_text() const { return std::to_string(values_.size() - at_); }

  std::span<const T> values_;
  std::string name_, where_;
  size_t at_ = 0;
};

std::vector<BatchGroup> groups_from(const Json& json, std::span<const StepTensor> tensors,
                                    const std::string& where) {
  Reader<int32_t> prompts(find(tensors, "prompts", DType::i32, where), "prompts", where);
  const HostTensor& ids = find(tensors, "completions", DType::i32, where);
  Reader<int32_t> completions(ids, "completions", where);
  const HostTensor& terms = find(tensors, "terms", DType::f32, where);
  if (terms.dims() != Dims{kTermCount, ids.size()}) {
    damaged(where, fmt::format("'terms' of [{}, {}]", kTermCount, ids.size()),
            shape_text(terms.dtype(), terms.dims()));
  }
  std::vector<BatchGroup> groups;
  size_t token = 0;
  for (const Json& g : json) {
    BatchGroup group{prompts.take(get_int(g, "prompt", where)), {}, get_string(g, "id", where)};
    for (const Json& c : g.at("completions")) {
      BatchCompletion out;
      out.sample = get_int(c, "sample", where);
      out.ids = completions.take(get_int(c, "tokens", where));
      out.terms.resize(out.ids.size());
      for (TokenTerm& t : out.terms) {
        for (size_t k = 0; k < kTermCount; ++k) {
          t.*kTerms[k] = terms.data<float>()[k * static_cast<size_t>(ids.size()) + token];
        }
        ++token;
      }
      group.completions.push_back(std::move(out));
    }
    groups.push_back(std::move(group));
  }
  prompts.expect_end();
  completions.expect_end();
  return groups;
}

Json json_of(const BatchShape& s) {
  return {{"rows", s.rows}, {"tokens", s.tokens}, {"scored", s.scored}, {"groups", s.groups}};
}

// As the keys that set it.
std::string keys_of(const Json& shape, const std::string& where) {
  auto number = [&](const char* key) { return get_int(shape, key, where); };
  return fmt::format(
      "train.rows = {}, train.row_tokens = {}, train.scored_tokens = {} and a mesh that shares out "
      "the rows among {}",
      number("rows"), number("tokens"), number("scored"), number("groups"));
}

void check_shape(const Json& saved, const BatchShape& shape, int64_t done,
                 const std::string& where) {
  const Json now = json_of(shape);
  const std::string wanted = keys_of(saved, where);
  require(done == 0 || saved == now,
          {.id = "rl.saved_batches",
           .where = where,
           .expected = fmt::format("the batches of which {} are done: {}", done, wanted),
           .got = keys_of(now, where),
           .cure = "Set these until the step is finished, or remove the checkpoint to go on from "
                   "the one before",
           .code = Code::failed_precondition});
}

}  // namespace

void set_mark(GrpoWork& work, const Engine& engine) {
  work.mark = {work.done, work.sums, engine.counts(), engine.parameters()->version()};
}

Json to_json(const GrpoWork& work, const BatchShape& shape) {
  Json groups = Json::array();
  for (const BatchGroup& g : work.groups) {
    Json completions = Json::array();
    for (const BatchCompletion& c : g.completions) {
      completions.push_back({{"sample", c.sample}, {"tokens", c.ids.size()}});
    }
    groups.push_back({{"id", g.id}, {"prompt", g.prompt.size()}, {"completions", completions}});
  }
  return {{"groups", groups},
          {"shape", json_of(shape)},
          {"metrics", to_json(work.result.metrics)},
          {"rewards", work.result.rewards},
          {"solved", work.result.solved}};
}

std::vector<StepTensor> tensors_of(const GrpoWork& work) {
  std::vector<int32_t> prompts, completions;
  for (const BatchGroup& g : work.groups) {
    prompts.insert(prompts.end(), g.prompt.begin(), g.prompt.end());
    for (const BatchCompletion& c : g.completions) {
      completions.insert(completions.end(), c.ids.begin(), c.ids.end());
    }
  }
  std::vector<float> terms;
  for (float TokenTerm::*term : kTerms) {
    for (const BatchGroup& g : work.groups) {
      for (const BatchCompletion& c : g.completions) {
        for (const TokenTerm& t : c.terms) terms.push_back(t.*term);
      }
    }
  }
  auto count = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  std::vector<StepTensor> out;
  out.push_back({"prompts", HostTensor::of<int32_t>({count(prompts)}, prompts)});
  out.push_back({"completions", HostTensor::of<int32_t>({count(completions)}, completions)});
  out.push_back({"terms", HostTensor::of<float>({kTermCount, count(completions)}, terms)});
  if (!work.sums.empty()) {
    out.push_back({"sums", HostTensor::of<float>({count(work.sums)}, work.sums)});
  }
  return out;
}

GrpoWork work_from(const Json& json, std::span<const StepTensor> tensors, const BatchShape& shape,
                   int64_t done, const std::string& where) {
  GrpoWork work;
  try {
    work.groups = groups_from(json.at("groups"), tensors, where);
    work.result.metrics = metrics_from(json.at("metrics"), where);
    work.result.rewards = json.at("rewards").get<std::vector<double>>();
    work.result.solved = json.at("solved").get<std::vector<uint8_t>>();
    check_shape(json.at("shape"), shape, done, where);
  } catch (const Json::exception& e) {
    damaged(where, "groups, metrics, rewards, solved and shape", e.what());
  }
  for (const StepTensor& t : tensors) {
    if (t.name != "sums" || t.value.dtype() != DType::f32) continue;
    auto sums = t.value.data<float>();
    work.sums.assign(sums.begin(), sums.end());
  }
  work.batches = pack(work.groups, shape);
  work.done = done;
  return work;
}

}  // namespace strata::rl
