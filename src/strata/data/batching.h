// Examples → batches of fixed shape for the device.
//
// A batch has B rows of T tokens. With packing a row holds several examples as segments 1, 2, …;
// otherwise one. Positions restart at 0 in each segment; padding is segment 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/host_tensor.h"
#include "strata/base/json.h"
#include "strata/data/dataset.h"

namespace strata::data {

// All [B, T]. Logits at t predict targets[t] = input_ids[t + 1]; loss_mask[t] is 1 where that
// token has loss, and 0 on the last token of a segment, whose follower belongs to another one.
struct Batch {
  HostTensor input_ids;    // i32, pad_id in padding
  HostTensor positions;    // i32, 0 in padding
  HostTensor segment_ids;  // i32
  HostTensor targets;      // i32, pad_id where there is none
  HostTensor loss_mask;    // f32
  int64_t examples = 0;
  int64_t tokens = 0;   // not padding
  int64_t trained = 0;  // sum of loss_mask
};

// Lays examples out in rows, in order. Throws invalid_argument when a row is longer than `length`
// or an example's mask does not fit its ids.
Batch assemble(const std::vector<std::vector<Example>>& rows, int64_t length, int32_t pad_id);

// Order of `size` lines in an epoch: a permutation that depends on (size, seed, epoch) only, the
// same on every machine. Not shuffled: 0, 1, 2, ….
std::vector<uint32_t> epoch_order(size_t size, uint64_t seed, int64_t epoch, bool shuffle);

// The next line to read: `index` counts in the epoch's order.
struct StreamState {
  int64_t epoch = 0;
  int64_t index = 0;
  bool operator==(const StreamState&) const = default;
};

Json to_json(const StreamState& state);
// Throws as get_int.
StreamState stream_state_from_json(const Json& json, const std::string& where);

struct BatchOptions {
  int64_t rows = 8;
  int64_t length = 1024;
  bool packing = true;
  bool shuffle = true;
  uint64_t seed = 0;
  int32_t pad_id = 0;
  // Ends after so many epochs, the last batch perhaps with empty rows; 0: never, and batches run
  // across the end of an epoch.
  int64_t epochs = 0;
};

// Draws batches from a data set. With packing, examples go in order into the first row that has
// room (first fit); a batch ends at the first example that fits nowhere, which begins the next
// one, so that `state` is exact at every batch. Not thread-safe.
class BatchStream {
 public:
  // `dataset` must outlive the stream. Throws invalid_argument for rows or length below 1 (2) or a
  // data set whose examples may be longer than the rows.
  BatchStream(Dataset* dataset, const BatchOptions& options, int64_t longest_example);

  // Nothing at the end of the last epoch. Throws failed_precondition (id "dataset.nothing") when a
  // whole epoch gave no example, otherwise as Dataset::example.
  std::optional<Batch> next();

  const StreamState& state() const { return state_; }
  // What became of the lines before `state`.
  const DatasetCounts& counts() const { return counts_; }
  // Goes on where `state` and `counts` were taken. Throws out_of_range for a state that does not
  // fit the data.
  void restore(const StreamState& state, const DatasetCounts& counts = {});

 private:
  // The next example, which stays the next one; nothing at the end of the last epoch.
  const Example* peek();
  // Leaves the line at `state` behind.
  void advance();

  Dataset* dataset_;
  BatchOptions options_;
  StreamState state_;
  int64_t ordered_epoch_ = -1;
  std::vector<uint32_t> order_;
  std::optional<Example> waiting_;
  DatasetCounts counts_;
  bool epoch_gave_one_ = false;
  int64_t epoch_begin_ = 0;  // index at which reading of the epoch began
};

}  // namespace strata::data
