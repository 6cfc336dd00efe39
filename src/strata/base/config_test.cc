#include "strata/base/config.h"

#include <gtest/gtest.h>

#include "strata/base/error.h"

namespace strata {
namespace {

constexpr const char* kText = R"(name = "demo"
[train]
lr = 1e-3
steps = 20          # a comment
clip = inf
shuffle = true
sizes = [1, 2]
[train.schedule]
kind = "cosine"
[[groups]]
match = "norm"
decay = 0.0
[[groups]]
match = ".*"
decay = 0.1
)";

Config read(std::vector<std::string> overrides = {}) {
  return Config::from_text(kText, "c.toml", overrides);
}

TEST(ConfigTest, GettersReadEveryKindOfValue) {
  Config c = read();
  EXPECT_EQ(c.text("name"), "demo");
  EXPECT_EQ(c.number("train.lr"), 1e-3);
  EXPECT_EQ(c.number("train.steps"), 20.0);
  EXPECT_EQ(c.integer("train.steps"), 20);
  EXPECT_EQ(c.number("train.clip", NumberRange{0}), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(c.flag("train.shuffle", false));
  EXPECT_EQ(c.integers("train.sizes"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(c.numbers("train.sizes"), (std::vector<double>{1, 2}));
  std::vector<std::string> kinds = {"constant", "cosine"};
  EXPECT_EQ(c.choice("train.schedule.kind", "constant", kinds), "cosine");
  ASSERT_EQ(c.count("groups"), 2);
  EXPECT_EQ(c.text("groups[1].match"), ".*");
  EXPECT_EQ(c.number("groups[0].decay"), 0.0);
}

TEST(ConfigTest, AbsentKeysTakeTheirFallback) {
  Config c = read();
  EXPECT_EQ(c.integer("train.warmup", 5, IntRange{0}), 5);
  EXPECT_EQ(c.number("train.decay", 0.1, NumberRange{0}), 0.1);
  EXPECT_EQ(c.text("train.dtype", "f32"), "f32");
  EXPECT_FALSE(c.flag("train.resume", false));
  EXPECT_TRUE(c.texts("train.tags").empty());
  EXPECT_EQ(c.count("tasks"), 0);
  EXPECT_FALSE(c.has("train.warmup"));
  EXPECT_TRUE(c.has("train.schedule"));
}

TEST(ConfigTest, OverridesAreTypedAndTheLastOneWins) {
  Config c = read({"train.lr=0.5", "train.lr = 2e-4", "train.shuffle=false", "new.list=[3,4]",
                   "name=plain text", "train.schedule.kind='constant'"});
  EXPECT_EQ(c.number("train.lr"), 2e-4);
  EXPECT_FALSE(c.flag("train.shuffle", true));
  EXPECT_EQ(c.integers("new.list"), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(c.text("name"), "plain text");
  EXPECT_EQ(c.text("train.schedule.kind"), "constant");
  EXPECT_EQ(c.place("train.lr"), "--set train.lr");
  EXPECT_EQ(c.place("train.steps"), "c.toml:4");
}

TEST(ConfigTest, AnOverrideThatLooksLikeANumberCanBeText) {
  EXPECT_EQ(read({"name=2024"}).text("name"), "2024");
  EXPECT_EQ(read({"name=a=b"}).text("name"), "a=b");
}

TEST(ConfigTest, OverridesReachIntoListsOfTables) {
  Config c = read({"groups[1].decay=0.2"});
  EXPECT_EQ(c.number("groups[1].decay"), 0.2);
  EXPECT_EQ(c.number("groups[0].decay"), 0.0);
}

TEST(ConfigTest, RejectUnknownPassesWhenAllIsDeclared) {
  Config c = Config::from_text("[a]\nb = 1\n[empty.of.a]\n", "c.toml");
  c.integer("a.b");
  c.integer("empty.of.a.x", 0, {});
  EXPECT_NO_THROW(c.reject_unknown());
}

TEST(ConfigTest, EffectiveHoldsFileOverridesAndDefaults) {
  Config c = read({"train.lr=0.5"});
  c.number("train.lr");
  c.integer("train.warmup", 5, {});
  c.count("groups");
  c.text("groups[0].match");
  c.text("groups[1].match");
  EXPECT_EQ(c.effective().dump(), R"({"train":{"lr":0.5,"warmup":5},)"
                                  R"("groups":[{"match":"norm"},{"match":".*"}]})");
}

TEST(ConfigTest, EffectiveTomlReadsBackToTheSameValues) {
  Config c = Config::from_text("a = 0.1\nb = 3\nc = 1e300\n[d]\ne = \"q\\\"uote\"\nf = [true]\n",
                               "c.toml", std::vector<std::string>{"n=[1.5, 2.0]"});
  auto get = [](Config& from) {
    from.number("a");
    from.integer("b");
    from.number("c");
    from.text("d.e");
    from.numbers("n");
    return from.effective();
  };
  Json first = get(c);
  Config again = Config::from_text(c.effective_toml(), "again.toml");
  EXPECT_EQ(get(again), first) << c.effective_toml();
}

}  // namespace
}  // namespace strata
