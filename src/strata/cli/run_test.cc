#include "strata/cli/run.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <set>

#include "strata/base/error.h"
#include "strata/cli/commands.h"
#include "strata/cli/exit_status.h"

namespace strata::cli {
namespace {

struct Outcome {
  int status;
  std::string out;
  std::string err;
};

// A command that prints its option, or fails as it is told.
void declare_sample(CLI::App& app) {
  auto code = std::make_shared<int>(0);
  app.add_option("--fail-with", *code, "An error code");
  app.callback([code] {
    std::printf("working\n");
    if (*code == 99) throw std::bad_alloc();
    if (*code == 98) throw std::runtime_error("a surprise");
    if (*code == 0) return;
    Error e(static_cast<Code>(*code), "sample.failed", "it failed");
    e.add_context("while sampling");
    throw e;
  });
}

Outcome run_sample(const std::vector<std::string>& arguments) {
  const std::vector<Command> commands = {
      {"sample", "A sample", "strata sample --fail-with 3\n", declare_sample}, version_command()};
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  int status = run(arguments, commands);
  std::string err = ::testing::internal::GetCapturedStderr();
  return {status, ::testing::internal::GetCapturedStdout(), err};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RunTest, ACommandRuns) {
  Outcome o = run_sample({"sample"});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(o.out, "working\n");
  EXPECT_EQ(o.err, "");
}

TEST(RunTest, ErrorsBecomeTextAndStatus) {
  Outcome o = run_sample({"sample", "--fail-with", "15"});
  EXPECT_EQ(o.status, 5);
  EXPECT_EQ(o.err, "strata: error: it failed\n  while sampling\n");
  EXPECT_EQ(run_sample({"sample", "--fail-with=5"}).status, 4);
  EXPECT_EQ(run_sample({"sample", "--fail-with=99"}).status, 7);
  Outcome surprise = run_sample({"sample", "--fail-with=98"});
  EXPECT_EQ(surprise.status, 1);
  EXPECT_TRUE(contains(surprise.err, "a surprise (a bug in Strata)")) << surprise.err;
}

TEST(RunTest, WrongCommandLinesNameTheNearestWord) {
  Outcome command = run_sample({"smaple"});
  EXPECT_EQ(command.status, 2);
  EXPECT_TRUE(contains(command.err, "unknown command 'smaple'. Did you mean 'sample'?"));
  Outcome option = run_sample({"sample", "--fial-with=3"});
  EXPECT_EQ(option.status, 2);
  EXPECT_TRUE(contains(option.err, "unknown option '--fial-with'. Did you mean '--fail-with'?"))
      << option.err;
  EXPECT_TRUE(contains(option.err, "Try: strata sample --help"));
  EXPECT_EQ(option.out, "");
  Outcome argument = run_sample({"sample", "extra"});
  EXPECT_TRUE(contains(argument.err, "unknown argument 'extra'")) << argument.err;
  Outcome value = run_sample({"sample", "--fail-with", "many"});
  EXPECT_EQ(value.status, 2);
  EXPECT_TRUE(contains(value.err, "--fail-with")) << value.err;
  EXPECT_EQ(run_sample({}).status, 2);
  EXPECT_EQ(run_sample({""}).status, 2);
}

TEST(RunTest, HelpAndVersionGoToStdout) {
  Outcome help = run_sample({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_TRUE(contains(help.out, "sample")) << help.out;
  EXPECT_TRUE(contains(help.out, "Exit status:")) << help.out;
  Outcome sub = run_sample({"sample", "--help"});
  EXPECT_EQ(sub.status, 0);
  EXPECT_TRUE(contains(sub.out, "strata sample --fail-with 3")) << sub.out;
  EXPECT_EQ(run_sample({"--version"}).out.substr(0, 7), "strata ");
  EXPECT_TRUE(contains(run_sample({"version", "--json"}).out, "\"compiler\""));
}

TEST(RunTest, AllCommandsHaveNamesOfTheirOwnAndExamples) {
  std::set<std::string_view> names;
  for (const Command& c : all_commands()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_FALSE(c.summary.empty()) << c.name;
    EXPECT_TRUE(contains(std::string(c.examples), "strata " + std::string(c.name))) << c.name;
  }
}

TEST(ExitStatusTest, EveryCodeHasAStatusThatTheHelpExplains) {
  std::string help = exit_status_help();
  for (int code = 1; code <= 16; ++code) {
    int status = exit_status(static_cast<Code>(code));
    EXPECT_GT(status, 0);
    EXPECT_NE(status, kUsage);
    EXPECT_TRUE(contains(help, std::to_string(status) + "  ")) << status;
  }
  EXPECT_EQ(exit_status(Code::invalid_argument), 3);
  EXPECT_EQ(exit_status(Code::unimplemented), 6);
  EXPECT_EQ(exit_status(Code::deadline_exceeded), 8);
}

}  // namespace
}  // namespace strata::cli
