#include "strata/rl/token_batch.h"

#include <algorithm>

#include "strata/base/error.h"

namespace strata::rl {
namespace {

int64_t scored_tokens(const BatchGroup& g, const BatchCompletion& c) {
  size_t first = g.prompt.empty() ? 1 : 0;
  int64_t n = 0;
  for (size_t t = first; t < c.terms.size(); ++t) n += c.terms[t].weight != 0 ? 1 : 0;
  return n;
}

int64_t scored_tokens(const BatchGroup& g) {
  int64_t n = 0;
  for (const BatchCompletion& c : g.completions) n += scored_tokens(g, c);
  return n;
}

int64_t read_tokens(const BatchCompletion& c) {
  return std::max<int64_t>(0, static_cast<int64_t>(c.ids.size()) - 1);
}

int64_t scored_of_group(const BatchShape& shape) { return shape.scored / shape.groups; }

// Fills one batch, row by row.
class Writer {
 public:
  explicit Writer(const BatchShape& shape)
      : used_(static_cast<size_t>(shape.rows), 0), scored_(static_cast<size_t>(shape.groups), 0) {
    batch_.shape = shape;
    Dims grid{shape.rows, shape.tokens}, list{shape.scored};
    for (HostTensor* t : {&batch_.ids, &batch_.positions, &batch_.segments, &batch_.parents}) {
      *t = HostTensor(DType::i32, grid);
    }
    for (HostTensor* t : {&batch_.source, &batch_.labels, &batch_.sequence}) {
      *t = HostTensor(DType::i32, list);
    }
    batch_.terms = HostTensor(DType::f32, {5, shape.scored});
  }

  // Adds the group to the first row with room; false when there is none.
  bool add(const BatchGroup& g) {
    for (size_t row = 0; row < used_.size(); ++row) {
      bool scores_fit = scored_[group_of(row)] + scored_tokens(g) <= scored_of_group(batch_.shape);
      if (scores_fit && used_[row] + row_tokens(g) <= batch_.shape.tokens) {
        place(g, row);
        return true;
      }
    }
    return false;
  }

  bool empty() const { return batch_.real_tokens == 0; }
  TokenBatch take() { return std::move(batch_); }

 private:
  void place(const BatchGroup& g, size_t row) {
    int32_t prompt_segment = 0;
    if (!g.prompt.empty()) {
      prompt_segment = next_segment_++;
      for (size_t t = 0; t < g.prompt.size(); ++t) {
        token(row, g.prompt[t], static_cast<int32_t>(t), prompt_segment, 0);
      }
    }
    int64_t last_of_prompt = at(row) - 1;
    for (const BatchCompletion& c : g.completions) {
      completion(row, g, c, prompt_segment, last_of_prompt);
    }
  }

  void completion(size_t row, const BatchGroup& g, const BatchCompletion& c, int32_t parent,
                  int64_t last_of_prompt) {
    int32_t segment = next_segment_++;
    int64_t first = at(row);
    auto offset = static_cast<int32_t>(g.prompt.size());
    for (int64_t t = 0; t < read_tokens(c); ++t) {
      token(row, c.ids[static_cast<size_t>(t)], offset + static_cast<int32_t>(t), segment, parent);
    }
    for (size_t t = g.prompt.empty() ? 1 : 0; t < c.ids.size(); ++t) {
      if (c.terms[t].weight == 0) continue;
      int64_t source = t == 0 ? last_of_prompt : first + static_cast<int64_t>(t) - 1;
      int64_t at = score(group_of(row), source, c.ids[t], c.terms[t]);
      batch_.scored.push_back({c.sample, static_cast<int64_t>(t), at});
    }
    ++batch_.sequences;
  }

  size_t group_of(size_t row) const {
    return row * static_cast<size_t>(batch_.shape.groups) / used_.size();
  }

  int64_t at(size_t row) const {
    return static_cast<int64_t>(row) * batch_.shape.tokens + used_[row];
  }

  void token(size_t row, int32_t id, int32_t position, int32_t segment, int32_t parent) {
    auto i = static_cast<size_t>(at(row));
    batch_.ids.data<int32_t>()[i] = id;
    batch_.positions.data<int32_t>()[i] = position;
    batch_.segments.data<int32_t>()[i] = segment;
    batch_.parents.data<int32_t>()[i] = parent;
    ++used_[row];
    ++batch_.real_tokens;
  }

  // Where the token stands in the lists.
  int64_t score(size_t group, int64_t source, int32_t label, const TokenTerm& term) {
    auto g = static_cast<int64_t>(group);
    source -= g * batch_.shape.rows / batch_.shape.groups * batch_.shape.tokens;
    auto i = static_cast<size_t>(g * scored_of_group(batch_.shape) + scored_[group]++);
    batch_.source.data<int32_t>()[i] = static_cast<int32_t>(source);
    batch_.labels.data<int32_t>()[i] = label;
    batch_.sequence.data<int32_t>()[i] = static_cast<int32_t>(batch_.sequences);
    auto values = batch_.terms.data<float>();
    auto n = static_cast<size_t>(batch_.shape.scored);
    values[i] = term.weight;
    values[n + i] = term.advantage;
    values[2 * n + i] = term.old_logprob;
    values[3 * n + i] = term.sampler_logprob;
    values[4 * n + i] = term.reference_logprob;
    return static_cast<int64_t>(i);
  }

  TokenBatch batch_;
  std::vector<int64_t> used_;    // tokens of each row
  std::vector<int64_t> scored_;  // of each group
  int32_t next_segment_ = 1;
};

void check(const BatchGroup& g, const BatchCompletion& c, const BatchShape& shape) {
  require(c.terms.size() == c.ids.size(), {.id = "rl.batch_terms",
                                           .where = g.id,
                                           .expected = std::to_string(c.ids.size()) + " terms",
                                           .got = std::to_string(c.terms.size())});
  int64_t tokens = static_cast<int64_t>(g.prompt.size()) + read_tokens(c);
  int64_t scored = scored_tokens(g, c);
  const int64_t most = scored_of_group(shape);
  if (tokens <= shape.tokens && scored <= most) return;
  fail({.id = "rl.batch_row",
        .where = g.id,
        .expected = "a prompt and completion of at most " + std::to_string(shape.tokens) +
                    " tokens, " + std::to_string(most) + " of them trained on",
        .got = std::to_string(tokens) + " and " + std::to_string(scored),
        .cure = "Raise the tokens of a row (train.row_tokens, train.scored_tokens) or shorten the "
                "sample",
        .code = Code::out_of_range});
}

// The group in parts that each fit a row.
std::vector<BatchGroup> parts_of(const BatchGroup& g, const BatchShape& shape) {
  std::vector<BatchGroup> parts;
  for (const BatchCompletion& c : g.completions) {
    check(g, c, shape);
    if (!parts.empty()) {
      const BatchGroup& last = parts.back();
      bool fits = row_tokens(last) + read_tokens(c) <= shape.tokens &&
                  scored_tokens(last) + scored_tokens(g, c) <= scored_of_group(shape);
      if (fits) {
        parts.back().completions.push_back(c);
        continue;
      }
    }
    parts.push_back({g.prompt, {c}, g.id});
  }
  return parts;
}

}  // namespace

int64_t row_tokens(const BatchGroup& g) {
  auto n = static_cast<int64_t>(g.prompt.size());
  for (const BatchCompletion& c : g.completions) n += read_tokens(c);
  return n;
}

std::vector<TokenBatch> pack(std::span<const BatchGroup> groups, const BatchShape& shape) {
  invariant(shape.groups >= 1 && shape.rows % shape.groups == 0 && shape.scored % shape.groups == 0,
            "rl.batch_groups", "groups of equal rows and scored tokens");
  std::vector<Writer> writers;
  for (const BatchGroup& g : groups) {
    for (const BatchGroup& part : parts_of(g, shape)) {
      bool placed = false;
      for (Writer& w : writers) placed = placed || w.add(part);
      if (placed) continue;
      writers.emplace_back(shape);
      invariant(writers.back().add(part), "rl.pack", "a part that fits an empty batch");
    }
  }
  std::vector<TokenBatch> out;
  for (Writer& w : writers) out.push_back(w.take());
  return out;
}

}  // namespace strata::rl
