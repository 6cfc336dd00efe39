#include "strata/data/tokenize_lines.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "strata/base/error.h"
#include "strata/checkpoint/model_files.h"
#include "strata/cli/commands.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string model;
  std::string input;
  data::TokenizeOptions options;
};

// std::ifstream opens directories and tells no reason, so the file is looked at first.
std::ifstream open_lines(const std::string& path) {
  std::error_code ec;
  bool exists = std::filesystem::exists(path, ec);
  require(exists, {.id = "cli.input_missing",
                   .where = path,
                   .expected = "a file of JSON lines",
                   .got = ec ? ec.message() : "no such file",
                   .code = Code::not_found});
  require(!std::filesystem::is_directory(path, ec), {.id = "cli.input_directory",
                                                     .where = path,
                                                     .expected = "a file of JSON lines",
                                                     .got = "a directory"});
  std::ifstream in(path, std::ios::binary);
  require(in.is_open(), {.id = "cli.input_unreadable",
                         .where = path,
                         .expected = "a file that may be read",
                         .got = std::strerror(errno),
                         .code = Code::permission_denied});
  return in;
}

void tokenize(const Flags& flags) {
  data::Tokenizer tokenizer = data::Tokenizer::load(flags.model);
  data::TokenizeOptions options = flags.options;
  if (flags.input.empty() || flags.input == "-") {
    data::tokenize_lines(std::cin, std::cout, tokenizer, options);
    return;
  }
  options.where = flags.input;
  std::ifstream in = open_lines(flags.input);
  data::tokenize_lines(in, std::cout, tokenizer, options);
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option(
         "--model", flags->model,
         "A model directory, or a tokenizer.json or tokenizer.model; weights are not needed")
      ->required();
  CLI::Option* decode = app.add_flag("--decode", flags->options.decode,
                                     "Read {\"ids\": [...]} lines and write {\"text\": ...} ones");
  app.add_flag("--plain", flags->options.plain,
               "Special tokens written in a text are ordinary text")
      ->excludes(decode);
  app.add_option("INPUT", flags->input,
                 "JSON lines, {\"text\": ...} each; standard input when absent or -");
  app.callback([flags] {
    flags->model = checkpoint::model_path(flags->model).string();
    tokenize(*flags);
  });
}

}  // namespace

Command tokenize_command() {
  return {"tokenize", "Turn texts into token ids and back, as JSON lines",
          "echo '{\"text\": \"Hello\"}' | strata tokenize --model DIR\n"
          "strata tokenize --model DIR --decode ids.jsonl\n"
          "strata tokenize --model DIR/tokenizer.json --plain texts.jsonl\n",
          declare};
}

}  // namespace strata::cli
