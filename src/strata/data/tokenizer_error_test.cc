#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "strata/data/regex.h"
#include "strata/data/test_data.h"
#include "strata/data/tokenizer.h"
#include "strata/data/utf8.h"

namespace strata::data {
namespace {

Json base() { return read_json(data_path("tiny/tokenizer.json")); }

struct BadFile {
  const char* name;
  void (*change)(Json&);
  const char* id;
  const char* text;
};

Json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
}

constexpr BadFile kBadFiles[] = {
    {"no model", [](Json& d) { d.erase("model"); }, "tokenizer.malformed", "'model'"},
    {"no vocab", [](Json& d) { d["model"].erase("vocab"); }, "tokenizer.malformed", "'vocab'"},
    {"no merges", [](Json& d) { d["model"].erase("merges"); }, "tokenizer.malformed", "'merges'"},
    {"text id", [](Json& d) { d["model"]["vocab"]["a"] = "x"; }, "tokenizer.malformed",
     "integer ids"},
    {"negative id", [](Json& d) { d["model"]["vocab"]["a"] = -1; }, "tokenizer.malformed",
     "an id in 0..4194303"},
    {"huge id", [](Json& d) { d["model"]["vocab"]["a"] = 4000000000; }, "tokenizer.malformed",
     "token 'a'"},
    {"merge text", [](Json& d) { d["model"]["merges"][3] = "ab"; }, "tokenizer.malformed",
     "merges[3]"},
    {"merge of three", [](Json& d) { d["model"]["merges"][2].push_back("c"); },
     "tokenizer.malformed", "two tokens"},
    {"merge number", [](Json& d) { d["model"]["merges"][2] = 7; }, "tokenizer.malformed",
     "pairs of tokens"},
    {"merge of unknowns",
     [](Json& d) {
       d["model"]["merges"].push_back({"h", "q"});
     },
     "tokenizer.merge", "no token 'hq'"},
    {"unk", [](Json& d) { d["model"]["unk_token"] = "<unk>"; }, "tokenizer.unk_token", "<unk>"},
    {"unigram", [](Json& d) { d["model"]["type"] = "Unigram"; }, "tokenizer.unsupported",
     "Unigram"},
    {"dropout", [](Json& d) { d["model"]["dropout"] = 0.1; }, "tokenizer.unsupported", "dropout"},
    {"suffix", [](Json& d) { d["model"]["end_of_word_suffix"] = "</w>"; }, "tokenizer.unsupported",
     "</w>"},
    {"normalizer",
     [](Json& d) {
       d["normalizer"] = {{"type", "Lowercase"}};
     },
     "tokenizer.unsupported", "Lowercase"},
    {"pattern of a normalizer",
     [](Json& d) {
       d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "b"}};
     },
     "tokenizer.unsupported", "Regex"},
    {"list of normalizers",
     [](Json& d) {
       d["normalizer"] = {{"type", "Sequence"}, {"normalizers", 1}};
     },
     "tokenizer.malformed", "'normalizers'"},
    {"decoder",
     [](Json& d) {
       d["decoder"] = {{"type", "WordPiece"}};
     },
     "tokenizer.unsupported", "WordPiece"},
    {"no decoder", [](Json& d) { d["decoder"] = nullptr; }, "tokenizer.unsupported", "none"},
    {"decoder of another kind",
     [](Json& d) {
       d["decoder"] = {{"type", "Metaspace"}};
     },
     "tokenizer.unsupported", "one Metaspace"},
    {"strip",
     [](Json& d) {
       d["decoder"] = {
           {"type", "Sequence"},
           {"decoders", {{{"type", "Fuse"}}, {{"type", "Strip"}, {"content", "x"}, {"start", 1}}}}};
     },
     "tokenizer.unsupported", "one space"},
    {"scheme",
     [](Json& d) {
       d["decoder"] = {{"type", "Metaspace"}};
       d["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "last"}};
     },
     "tokenizer.unsupported", "'prepend_scheme'"},
    {"post",
     [](Json& d) {
       d["post_processor"] = {{"type", "BertProcessing"}};
     },
     "tokenizer.unsupported", "BertProcessing"},
    {"template",
     [](Json& d) {
       d["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}}};
     },
     "tokenizer.malformed", "token '<s>'"},
    {"no byte level", [](Json& d) { d["pre_tokenizer"] = split("a"); }, "tokenizer.unsupported",
     "ByteLevel"},
    {"no pre-tokenizer", [](Json& d) { d["pre_tokenizer"] = nullptr; }, "tokenizer.unsupported",
     "null"},
    {"pattern", [](Json& d) { d["pre_tokenizer"]["pretokenizers"][0]["pattern"] = 3; },
     "tokenizer.malformed", "'pattern'"},
    {"behavior", [](Json& d) { d["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Odd"; },
     "tokenizer.malformed", "MergedWithPrevious"},
    {"added", [](Json& d) { d["added_tokens"][1]["id"] = "x"; }, "json.type", "added_tokens[1]"},
    {"regex", [](Json& d) { d["pre_tokenizer"]["pretokenizers"][0] = split("(a"); },
     "tokenizer.regex", "pattern '(a' at 2"},
    {"nested class", [](Json& d) { d["pre_tokenizer"]["pretokenizers"][0] = split("[a[b]]"); },
     "tokenizer.regex_unsupported", "class inside a class"},
};

TEST(TokenizerError, EveryWrongFileIsNamed) {
  for (const BadFile& bad : kBadFiles) {
    Json document = base();
    bad.change(document);
    Error e = error_of([&] { Tokenizer::from_json(document.dump(), "dir/tokenizer.json"); });
    EXPECT_EQ(e.id(), bad.id) << bad.name << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(bad.text), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("dir/tokenizer.json"), std::string::npos) << e.what();
  }
}

// No prefix of a good file is accepted, and none crashes.
TEST(TokenizerError, TruncatedFiles) {
  std::string text = base().dump();
  for (size_t size = 0; size + 1 < text.size(); size += size < 200 ? 1 : 37) {
    Error e = error_of([&] { Tokenizer::from_json(text.substr(0, size), "t"); });
    EXPECT_EQ(e.code(), Code::data_loss) << size << ": " << e.what();
  }
  Error deep = error_of([] { Tokenizer::from_json(std::string(100000, '['), "t"); });
  EXPECT_EQ(deep.id(), "tokenizer.malformed");
}

TEST(TokenizerError, ClassIntersectionsAndOddEscapes) {
  for (const char* pattern : {"[a&&b]", "\\h", "[\\W]"}) {
    EXPECT_EQ(error_of([&] { translate_pattern(pattern, "t"); }).code(), Code::unimplemented)
        << pattern;
  }
  EXPECT_EQ(translate_pattern("[]a[:alpha:]\\]]\\s", "t"), "[]a[:alpha:]\\]]\\p{White_Space}");
}

TEST(TokenizerError, PatternsThatBacktrackForeverStop) {
  Regex regex("(?:a|aa)+$", "t");
  Error e = error_of([&] { regex.find_all(std::string(80, 'a') + "c"); });
  EXPECT_EQ(e.id(), "tokenizer.regex_match");
  EXPECT_EQ(e.code(), Code::resource_exhausted);
}

TEST(TokenizerError, MissingFiles) {
  strata::testing::ScratchDirectory scratch;
  const std::filesystem::path& empty = scratch.path();
  Error e = error_of([&] { Tokenizer::load(empty); });
  EXPECT_EQ(e.id(), "tokenizer.not_found");
  EXPECT_NE(std::string(e.what()).find("tokenizer.json"), std::string::npos);
  EXPECT_EQ(error_of([&] { Tokenizer::load(empty / "tokenizer.json"); }).code(), Code::not_found);
  std::filesystem::path model = empty / "junk.model";
  std::ofstream(model) << "not a model";
  Error junk = error_of([&] { Tokenizer::load(model); });
  std::ofstream(model, std::ios::trunc) << "";
  Error nothing = error_of([&] { Tokenizer::load(model); });
  EXPECT_EQ(junk.id(), "tokenizer.sentencepiece");
  EXPECT_EQ(nothing.id(), "tokenizer.sentencepiece");
  EXPECT_EQ(nothing.code(), Code::data_loss);
}

TEST(TokenizerError, WrongCalls) {
  Error ill = error_of([] { normalize("\xff\xff", NormalForm::nfc); });
  EXPECT_EQ(ill.id(), "utf8.normalize");
  Tokenizer tokenizer = Tokenizer::load(data_path("tiny"));
  Error id = error_of([&] { tokenizer.id_to_bytes(274); });
  EXPECT_EQ(id.id(), "tokenizer.unknown_id");
  EXPECT_EQ(id.code(), Code::out_of_range);
  Error bytes = error_of([&] { tokenizer.encode_protected("\xff", {}); });
  EXPECT_EQ(bytes.id(), "tokenizer.protected_utf8");
}

}  // namespace
}  // namespace strata::data
