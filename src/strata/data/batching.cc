#include "strata/data/batching.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "strata/base/error.h"

namespace strata::data {
namespace {

// SplitMix64, a fixed function of its counter, so that orders are the same everywhere.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Copies one example into a row that already holds `used` tokens.
void place(const Example& e, int64_t segment, int64_t offset, Batch* batch) {
  auto ids = batch->input_ids.data<int32_t>();
  auto positions = batch->positions.data<int32_t>();
  auto segments = batch->segment_ids.data<int32_t>();
  auto targets = batch->targets.data<int32_t>();
  auto mask = batch->loss_mask.data<float>();
  for (size_t i = 0; i < e.ids.size(); ++i) {
    size_t at = static_cast<size_t>(offset) + i;
    ids[at] = e.ids[i];
    positions[at] = static_cast<int32_t>(i);
    segments[at] = static_cast<int32_t>(segment);
    if (i + 1 == e.ids.size()) continue;
    targets[at] = e.ids[i + 1];
    mask[at] = e.loss_mask[i + 1] != 0 ? 1.0F : 0.0F;
    batch->trained += e.loss_mask[i + 1] != 0 ? 1 : 0;
  }
  ++batch->examples;
  batch->tokens += static_cast<int64_t>(e.ids.size());
}

}  // namespace

Batch assemble(const std::vector<std::vector<Example>>& rows, int64_t length, int32_t pad_id) {
  Dims dims = {static_cast<int64_t>(rows.size()), length};
  Batch batch;
  batch.input_ids = HostTensor(DType::i32, dims);
  batch.positions = HostTensor(DType::i32, dims);
  batch.segment_ids = HostTensor(DType::i32, dims);
  batch.targets = HostTensor(DType::i32, dims);
  batch.loss_mask = HostTensor(DType::f32, dims);
  auto fill = [pad_id](HostTensor& t) {
    auto view = t.data<int32_t>();
    std::fill(view.begin(), view.end(), pad_id);
  };
  fill(batch.input_ids);
  fill(batch.targets);
  for (size_t r = 0; r < rows.size(); ++r) {
    int64_t used = 0;
    for (size_t k = 0; k < rows[r].size(); ++k) {
      const Example& e = rows[r][k];
      auto size = static_cast<int64_t>(e.ids.size());
      if (used + size > length || e.loss_mask.size() != e.ids.size()) {
        fail({.id = "batch.row",
              .where = fmt::format("row {}, example {}", r, k),
              .expected = fmt::format("at most {} tokens in a row, a mask for each", length),
              .got = fmt::format("{} with {} mask entries behind {}", size, e.loss_mask.size(),
                                 used)});
      }
      place(e, static_cast<int64_t>(k) + 1, static_cast<int64_t>(r) * length + used, &batch);
      used += size;
    }
  }
  return batch;
}

std::vector<uint32_t> epoch_order(size_t size, uint64_t seed, int64_t epoch, bool shuffle) {
  std::vector<uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  if (!shuffle) return order;
  uint64_t key = mixed(mixed(seed) ^ static_cast<uint64_t>(epoch));
  for (size_t i = size; i > 1; --i) {
    // Multiply-shift keeps the draw in 0..i-1; its bias is below i / 2^64.
    auto j = static_cast<size_t>((static_cast<__uint128_t>(mixed(key + i)) * i) >> 64);
    std::swap(order[i - 1], order[j]);
  }
  return order;
}

Json to_json(const StreamState& state) {
  return Json{{"epoch", state.epoch}, {"index", state.index}};
}

StreamState stream_state_from_json(const Json& json, const std::string& where) {
  return {get_int(json, "epoch", where), get_int(json, "index", where)};
}

BatchStream::BatchStream(Dataset* dataset, const BatchOptions& options, int64_t longest_example)
    : dataset_(dataset), options_(options), counts_(dataset->counts()) {
  bool fits = options.rows >= 1 && options.length >= 2 && longest_example <= options.length &&
              dataset->size() <= UINT32_MAX;
  if (!fits) {
    fail({.id = "batch.shape",
          .where = "batches",
          .expected = "at least 1 row of at least 2 tokens, no example longer than a row, and at "
                      "most 2^32 lines",
          .got = fmt::format("{} rows of {} tokens, examples up to {}, {} lines", options.rows,
                             options.length, longest_example, dataset->size())});
  }
}

void BatchStream::restore(const StreamState& state, const DatasetCounts& counts) {
  bool fits =
      state.epoch >= 0 && state.index >= 0 && state.index <= static_cast<int64_t>(dataset_->size());
  if (!fits) {
    fail({.id = "batch.state",
          .where = "resuming",
          .expected = fmt::format("a position within {} lines", dataset_->size()),
          .got = fmt::format("epoch {}, index {}", state.epoch, state.index),
          .cure = "Resume with the data that the run began with",
          .code = Code::out_of_range});
  }
  state_ = state;
  dataset_->set_counts(counts);
  counts_ = counts;
  waiting_.reset();
  epoch_gave_one_ = false;
  epoch_begin_ = state.index;
}

const Example* BatchStream::peek() {
  auto size = static_cast<int64_t>(dataset_->size());
  while (!waiting_.has_value()) {
    if (options_.epochs > 0 && state_.epoch >= options_.epochs) return nullptr;
    if (state_.index >= size) {
      require(epoch_gave_one_ || epoch_begin_ > 0,
              {.id = "dataset.nothing",
               .where = dataset_->lines().where(0),
               .expected = "at least one example with a trainable token",
               .got = fmt::format("{} lines without one", size),
               .cure = "Raise max_tokens or look at the counts of what was left out",
               .code = Code::failed_precondition});
      state_ = {state_.epoch + 1, 0};
      epoch_gave_one_ = false;
      epoch_begin_ = 0;
      continue;
    }
    if (ordered_epoch_ != state_.epoch) {
      order_ = epoch_order(dataset_->size(), options_.seed, state_.epoch, options_.shuffle);
      ordered_epoch_ = state_.epoch;
    }
    waiting_ = dataset_->example(order_[static_cast<size_t>(state_.index)]);
    if (!waiting_.has_value()) advance();
  }
  epoch_gave_one_ = true;
  return &*waiting_;
}

void BatchStream::advance() {
  waiting_.reset();
  ++state_.index;
  counts_ = dataset_->counts();
}

std::optional<Batch> BatchStream::next() {
  std::vector<std::vector<Example>> rows(static_cast<size_t>(options_.rows));
  std::vector<int64_t> used(rows.size(), 0);
  bool any = false;
  while (const Example* example = peek()) {
    auto size = static_cast<int64_t>(example->ids.size());
    size_t row = 0;
    auto has_room = [&](size_t r) {
      return options_.packing ? used[r] + size <= options_.length : rows[r].empty();
    };
    while (row < rows.size() && !has_room(row)) ++row;
    if (row == rows.size()) break;
    rows[row].push_back(*example);
    used[row] += size;
    any = true;
    advance();
  }
  if (!any) return std::nullopt;
  return assemble(rows, options_.length, options_.pad_id);
}

}  // namespace strata::data
