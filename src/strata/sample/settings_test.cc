#include "strata/sample/settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "strata/sample/directory_for_test.h"
#include "strata/sample/generation_config.h"
#include "strata/testing/errors.h"

namespace strata::sample {
namespace {

using testing::expect_error;

TEST(Settings, EveryLimitNamesItsField) {
  struct Case {
    const char* part;
    std::function<void(SamplingSettings&)> set;
  };
  double nan = std::numeric_limits<double>::quiet_NaN();
  const Case cases[] = {
      {"max_new_tokens of at least 1, got 0", [](auto& s) { s.max_new_tokens = 0; }},
      {"at least 1 and at most 4000000000",
       [](auto& s) { s.max_new_tokens = int64_t{5000000000}; }},
      {"min_new_tokens of at least 0 and at most 3",
       [](auto& s) { s.max_new_tokens = 3, s.min_new_tokens = 4; }},
      {"min_new_tokens", [](auto& s) { s.min_new_tokens = -1; }},
      {"temperature of at least 0, got -0.5", [](auto& s) { s.temperature = -0.5; }},
      {"temperature", [=](auto& s) { s.temperature = nan; }},
      {"top_k of at least -1", [](auto& s) { s.top_k = -2; }},
      {"top_p of at least 0 and at most 1, got 1.01", [](auto& s) { s.top_p = 1.01; }},
      {"top_p", [](auto& s) { s.top_p = -0.1; }},
      {"min_p of at least 0 and at most 1", [](auto& s) { s.min_p = 2; }},
      {"repetition_penalty of more than 0", [](auto& s) { s.repetition_penalty = 0; }},
      {"frequency_penalty of at least -2 and at most 2", [](auto& s) { s.frequency_penalty = 3; }},
      {"presence_penalty of at least -2", [](auto& s) { s.presence_penalty = -3; }},
      {"samples of at least 1", [](auto& s) { s.samples = 0; }},
      {"stop texts that are not empty",
       [](auto& s) {
         s.stop = {"a", ""};
       }},
  };
  for (const Case& c : cases) {
    SamplingSettings s;
    check(s, "request 'a'");
    c.set(s);
    expect_error(Code::out_of_range, "sample.setting", c.part, [&] { check(s, "request 'a'"); });
    expect_error(Code::out_of_range, "sample.setting", "request 'a'",
                 [&] { check(s, "request 'a'"); });
  }
}

TEST(Settings, EveryFieldIsSetFromJson) {
  Json all = {{"max_new_tokens", 7},
              {"min_new_tokens", 2},
              {"temperature", 0.5},
              {"top_k", 9},
              {"top_p", 0.25},
              {"min_p", 0.125},
              {"repetition_penalty", 1.5},
              {"frequency_penalty", 1.0},
              {"presence_penalty", -1},
              {"stop", {"a", "b"}},
              {"stop_ids", 4},
              {"ignore_eos", true},
              {"processed_logprobs", true},
              {"seed", 18446744073709551615U},
              {"samples", 3}};
  SamplingSettings s;
  for (const std::string& name : setting_names()) set_field(s, name, all.at(name), "line");
  EXPECT_EQ(all.size(), setting_names().size());
  EXPECT_EQ(s.max_new_tokens, 7);
  EXPECT_EQ(s.min_new_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_k, 9);
  EXPECT_EQ(s.top_p, 0.25);
  EXPECT_EQ(s.min_p, 0.125);
  EXPECT_EQ(s.repetition_penalty, 1.5);
  EXPECT_EQ(s.frequency_penalty, 1.0);
  EXPECT_EQ(s.presence_penalty, -1.0);
  EXPECT_EQ(s.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.stop_ids, std::vector<int32_t>{4});
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_TRUE(s.processed_logprobs);
  EXPECT_EQ(s.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(s.samples, 3);
  for (const std::string& name : setting_names()) {
    Json wrong = Json::object();
    expect_error(Code::invalid_argument, "sample.setting_type", name + " as ",
                 [&] { set_field(s, name, wrong, "line"); });
  }
  expect_error(Code::invalid_argument, "sample.setting_type", "top_k as an integer, got 1.5",
               [&] { set_field(s, "top_k", 1.5, "line"); });
  expect_error(Code::invalid_argument, "sample.setting_type", "got [-1]",
               [&] { set_field(s, "stop_ids", {-1}, "line"); });
}

TEST(GenerationConfig, DefaultsComeFromTheFile) {
  Directory d;
  d.write("config.json", Json{{"eos_token_id", 2}});
  EXPECT_EQ(read_generation_config(d.path()).eos, std::vector<int32_t>{2});
  d.write("generation_config.json", Json{{"do_sample", true},
                                         {"temperature", 0.6},
                                         {"top_k", 20},
                                         {"top_p", 0.95},
                                         {"min_p", 0.1},
                                         {"repetition_penalty", 1.1},
                                         {"max_new_tokens", 9},
                                         {"eos_token_id", {7, 8}},
                                         {"pad_token_id", 7},
                                         {"num_beams", 1},
                                         {"typical_p", 0.9},
                                         {"transformers_version", "5"}});
  GenerationConfig c = read_generation_config(d.path());
  EXPECT_EQ(c.eos, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(c.defaults.temperature, 0.6);
  EXPECT_EQ(c.defaults.top_k, 20);
  EXPECT_EQ(c.defaults.top_p, 0.95);
  EXPECT_EQ(c.defaults.min_p, 0.1);
  EXPECT_EQ(c.defaults.repetition_penalty, 1.1);
  EXPECT_EQ(c.defaults.max_new_tokens, 9);
  ASSERT_EQ(c.declined.size(), 1u);
  EXPECT_NE(c.declined[0].find("typical_p = 0.9"), std::string::npos);
  d.write("generation_config.json", Json{{"do_sample", false}, {"temperature", nullptr}});
  c = read_generation_config(d.path());
  EXPECT_EQ(c.eos, std::vector<int32_t>{2});
  EXPECT_EQ(c.defaults.temperature, 0);
}

// Models whose language part is nested keep the ids there.
TEST(GenerationConfig, IdsMayStandInTheTextConfig) {
  Directory d;
  d.write("config.json", Json{{"text_config", {{"eos_token_id", 5}}}});
  EXPECT_EQ(read_generation_config(d.path()).eos, std::vector<int32_t>{5});
  EXPECT_TRUE(read_generation_config(d.path() / "nowhere").eos.empty());
}

TEST(GenerationConfig, BadFilesAreRefused) {
  Directory d;
  auto refuse = [&](Code code, const char* id, const char* part, const Json& json) {
    d.write("generation_config.json", json);
    expect_error(code, id, part, [&] { read_generation_config(d.path()); });
  };
  refuse(Code::data_loss, "sample.generation_config", "a JSON object", Json::array());
  refuse(Code::invalid_argument, "sample.eos", "eos_token_id", {{"eos_token_id", "end"}});
  refuse(Code::invalid_argument, "sample.eos", "[1,-2]", {{"eos_token_id", {1, -2}}});
  refuse(Code::out_of_range, "sample.setting", "top_p", {{"top_p", 2.0}});
  refuse(Code::invalid_argument, "sample.setting_type", "top_k as an integer", {{"top_k", "9"}});
}

}  // namespace
}  // namespace strata::sample
