#include "strata/data/batching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "strata/data/test_data.h"

namespace strata::data {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer tiny() { return Tokenizer::load(data_path("tiny")); }

template <class T>
std::vector<T> values(const HostTensor& t) {
  auto view = t.data<T>();
  return {view.begin(), view.end()};
}

Example trained_everywhere(Ids ids) {
  std::vector<uint8_t> mask(ids.size(), 1);
  return {std::move(ids), std::move(mask)};
}

// H5: three documents of 5, 7 and 2 tokens in a row of 16.
TEST(Batching, PackedDocumentsDoNotSeeEachOther) {
  Ids first = {3, 5, 7, 9, 11};
  Ids second = {2, 40, 41, 17, 6, 8, 1};
  Ids third = {33, 1};
  Batch b = assemble(
      {{trained_everywhere(first), trained_everywhere(second), trained_everywhere(third)}}, 16, 99);
  EXPECT_EQ(values<int32_t>(b.input_ids),
            (Ids{3, 5, 7, 9, 11, 2, 40, 41, 17, 6, 8, 1, 33, 1, 99, 99}));
  EXPECT_EQ(values<int32_t>(b.segment_ids), (Ids{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3, 3, 0, 0}));
  EXPECT_EQ(values<int32_t>(b.positions), (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 0, 1, 0, 0}));
  EXPECT_EQ(values<int32_t>(b.targets),
            (Ids{5, 7, 9, 11, 99, 40, 41, 17, 6, 8, 1, 99, 1, 99, 99, 99}));
  EXPECT_EQ(values<float>(b.loss_mask),
            (std::vector<float>{1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(b.trained, 11) << "the loss is divided by 11 tokens, not 13 or 16";
  EXPECT_EQ(b.tokens, 14);
  EXPECT_EQ(b.examples, 3);
  EXPECT_EQ(b.input_ids.dims(), (Dims{1, 16}));
}

TEST(Batching, OneTokenAndMasksMoveByOne) {
  Example e{{4, 5, 6}, {0, 0, 1}};
  Batch b = assemble({{e}, {trained_everywhere({7})}, {}}, 4, 0);
  EXPECT_EQ(values<float>(b.loss_mask), (std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(b.trained, 1) << "logits at 5 predict 6; a single token has no loss";
}

TEST(Batching, OrderIsAPermutationOfSeedAndEpoch) {
  std::vector<uint32_t> a = epoch_order(1000, 7, 0, true);
  EXPECT_EQ(a, epoch_order(1000, 7, 0, true));
  EXPECT_NE(a, epoch_order(1000, 7, 1, true));
  EXPECT_NE(a, epoch_order(1000, 8, 0, true));
  EXPECT_EQ(std::set<uint32_t>(a.begin(), a.end()).size(), 1000U);
  EXPECT_EQ(epoch_order(3, 7, 5, false), (std::vector<uint32_t>{0, 1, 2}));
  // The order is part of what a resumed run relies on, so it must never change.
  EXPECT_EQ(epoch_order(8, 1, 0, true), (std::vector<uint32_t>{1, 2, 3, 5, 0, 4, 6, 7}));
  // Each place is equally likely: chi-square of the first element over 8 values, 4000 epochs.
  std::vector<double> counts(8, 0);
  for (int64_t epoch = 0; epoch < 4000; ++epoch) ++counts[epoch_order(8, 3, epoch, true)[0]];
  double chi = 0;
  for (double c : counts) chi += (c - 500) * (c - 500) / 500;
  EXPECT_LT(chi, 24.3) << "7 degrees of freedom, p = 0.001";
}

// 40 lines of different lengths, a few of them bad.
std::string many_lines() {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    std::string body;
    for (int k = 0; k <= (i * 7) % 11; ++k) body += "hello world ";
    text += i % 13 == 5 ? "{\"bad\": 1}\n" : "{\"text\": \"" + body + std::to_string(i) + "\"}\n";
  }
  return text;
}

struct Stream {
  explicit Stream(const BatchOptions& options)
      : file("many.jsonl", many_lines()),
        data(file.path(), tiny(), std::nullopt, data_options()),
        stream(&data, options, 32) {}
  static DatasetOptions data_options() {
    DatasetOptions options;
    options.max_tokens = 32;
    options.bad_lines = BadLines::skip;
    return options;
  }
  TemporaryFile file;
  Dataset data;
  BatchStream stream;
};

BatchOptions small(bool packing, int64_t epochs) {
  BatchOptions options;
  options.rows = 3;
  options.length = 40;
  options.packing = packing;
  options.seed = 11;
  options.epochs = epochs;
  return options;
}

// The segments of a batch, as ids.
std::vector<Ids> segments_of(const Batch& b) {
  std::vector<Ids> out;
  Ids ids = values<int32_t>(b.input_ids);
  Ids segments = values<int32_t>(b.segment_ids);
  Ids positions = values<int32_t>(b.positions);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (segments[i] == 0) continue;
    if (positions[i] == 0) out.emplace_back();
    out.back().push_back(ids[i]);
  }
  return out;
}

TEST(Batching, EveryExampleOncePerEpoch) {
  for (bool packing : {true, false}) {
    Stream s(small(packing, 1));
    std::multiset<Ids> seen;
    int64_t batches = 0;
    while (std::optional<Batch> batch = s.stream.next()) {
      ++batches;
      for (const Ids& ids : segments_of(*batch)) seen.insert(ids);
      EXPECT_EQ(batch->input_ids.dims(), (Dims{3, 40}));
    }
    std::multiset<Ids> expected;
    Stream again(small(packing, 1));
    for (size_t i = 0; i < again.data.size(); ++i) {
      if (std::optional<Example> e = again.data.example(i)) expected.insert(e->ids);
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(expected.size(), 37U);
    EXPECT_EQ(s.stream.counts().bad, 3U);
    EXPECT_EQ(s.stream.counts().examples, 37U);
    if (packing) {
      EXPECT_LT(batches, 13);
    } else {
      EXPECT_EQ(batches, 13) << "37 examples, three a batch";
    }
  }
}

TEST(Batching, ResumesAtAnyBatchExactly) {
  BatchOptions options = small(true, 0);
  Stream whole(options);
  std::vector<Ids> batches;
  std::vector<StreamState> states;
  std::vector<DatasetCounts> counts;
  for (int i = 0; i < 25; ++i) {
    states.push_back(whole.stream.state());
    counts.push_back(whole.stream.counts());
    batches.push_back(values<int32_t>(whole.stream.next()->input_ids));
  }
  EXPECT_GE(states.back().epoch, 2) << "the test crosses epochs";
  for (size_t from = 0; from < states.size(); from += 4) {
    Stream resumed(options);
    StreamState state = stream_state_from_json(to_json(states[from]), "checkpoint");
    resumed.stream.restore(state, counts[from]);
    for (size_t i = from; i < batches.size(); ++i) {
      ASSERT_EQ(resumed.stream.state(), states[i]);
      ASSERT_EQ(resumed.stream.counts(), counts[i]) << "batch " << i << " from " << from;
      ASSERT_EQ(values<int32_t>(resumed.stream.next()->input_ids), batches[i]);
    }
  }
}

TEST(Batching, StreamsWithOneSeedAgree) {
  Stream a(small(true, 1));
  Stream b(small(true, 1));
  BatchOptions other = small(true, 1);
  other.seed = 12;
  Stream c(other);
  Ids first = values<int32_t>(a.stream.next()->input_ids);
  EXPECT_EQ(first, values<int32_t>(b.stream.next()->input_ids));
  EXPECT_NE(first, values<int32_t>(c.stream.next()->input_ids));
}

}  // namespace
}  // namespace strata::data
