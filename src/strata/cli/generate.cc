#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/checkpoint/model_files.h"
#include "strata/cli/commands.h"
#include "strata/cli/interrupted.h"
#include "strata/cli/layout.h"
#include "strata/models/registry.h"
#include "strata/sample/generation_config.h"
#include "strata/sample/prompts.h"
#include "strata/sample/request_lines.h"
#include "strata/sample/sampler.h"

namespace strata::cli {
namespace {

struct Flags {
  std::string model;
  std::string prompt, chat, input;
  bool has_prompt = false, has_chat = false;
  bool stream = false;
  bool json = false;
  std::map<std::string, std::vector<std::string>> settings;  // by SamplingSettings' names
  std::vector<int64_t> rows;
  int64_t context = 0;
  std::string dtype = "f32";
  LayoutFlags layout;
};

// A setting's command-line values as the JSON that set_field wants.
Json setting_json(const std::string& name, const std::vector<std::string>& values) {
  if (name == "stop") return values;
  auto one = [&](const std::string& text) {
    try {
      return parse_json(text, "--" + name);
    } catch (const Error&) {
      return Json(text);  // set_field tells what was expected
    }
  };
  if (name != "stop_ids") return one(values.back());
  Json list = Json::array();
  for (const std::string& v : values) list.push_back(one(v));
  return list;
}

// The model's own defaults with what the command line says instead.
sample::SamplingSettings settings_of(const Flags& flags, const sample::GenerationConfig& config) {
  sample::SamplingSettings out = config.defaults;
  for (const auto& [name, values] : flags.settings) {
    sample::set_field(out, name, setting_json(name, values), "command line");
  }
  sample::check(out, "command line");
  return out;
}

std::vector<sample::RequestLine> requests_of(const Flags& flags, const sample::Prompts& prompts,
                                             const sample::SamplingSettings& settings) {
  if (!flags.input.empty()) return sample::read_requests(flags.input, prompts, settings);
  sample::RequestLine line;
  line.id = 0;
  line.request.id = "0";
  line.request.settings = settings;
  Json say = Json::array({{{"role", "user"}, {"content", flags.chat}}});
  line.request.tokens = flags.has_chat ? prompts.of_chat(say) : prompts.of_text(flags.prompt);
  return {line};
}

// Prints results in the requests' order, each as soon as all before it are there.
class Printer {
 public:
  Printer(const Flags& flags, const std::vector<sample::RequestLine>& lines) : flags_(flags) {
    for (const sample::RequestLine& line : lines) {
      const sample::Request& r = line.request;
      plain_ = plain_ && lines.size() == 1 && r.settings.samples == 1;
      for (int64_t i = 0; i < r.settings.samples; ++i) {
        place_[{r.id, i}] = entries_.size();
        entries_.push_back({line.id, r.settings.samples > 1, {}});
      }
    }
  }

  // One answer alone, whose text may be printed piece by piece.
  bool plain() const { return plain_ && !flags_.json; }

  void add(sample::Result result) {
    tokens_ += static_cast<int64_t>(result.tokens.size());
    if (!result.error.empty() && error_.empty()) error_ = result.error;
    entries_[place_.at({result.id, result.sample})].result = std::move(result);
    for (; next_ < entries_.size() && entries_[next_].result; ++next_) print(entries_[next_]);
    std::fflush(stdout);
  }

  int64_t tokens() const { return tokens_; }
  const std::string& error() const { return error_; }

 private:
  struct Entry {
    Json id;
    bool numbered = false;
    std::optional<sample::Result> result;
  };

  void print(const Entry& e) const {
    const sample::Result& r = *e.result;
    if (flags_.json) {
      fmt::print("{}\n", sample::result_line(r, e.id, e.numbered));
    } else if (plain()) {
      fmt::print("{}\n", flags_.stream ? "" : r.text);
    } else {
      std::string number = e.numbered ? fmt::format(" ({})", r.sample) : "";
      fmt::print("{}{}: {}\n", r.id, number, r.text);
    }
  }

  const Flags& flags_;
  bool plain_ = true;
  std::vector<Entry> entries_;
  std::map<std::pair<std::string, int64_t>, size_t> place_;
  size_t next_ = 0;
  int64_t tokens_ = 0;
  std::string error_;
};

runtime::TablePtr load_model(const Flags& flags, const models::CausalLm& model,
                             const nn::Structure& structure, const runtime::ClientPtr& client) {
  auto source = weights::open_source(flags.model);
  std::vector<runtime::Array> arrays =
      checkpoint::load_parameters(structure.manifest(), *source, client,
                                  {.mesh = structure.mesh(), .ignorable = model.ignorable()});
  std::vector<std::pair<std::string, runtime::Array>> named;
  for (size_t i = 0; i < arrays.size(); ++i) {
    named.emplace_back(structure.manifest().slots()[i].name, std::move(arrays[i]));
  }
  return runtime::ParameterTable::make(1, std::move(named));
}

sample::SamplerSetup setup_of(const Flags& flags, const models::CausalLm& model,
                              const nn::Structure& structure,
                              const sample::GenerationConfig& config,
                              const sample::Prompts& prompts) {
  sample::SamplerSetup setup;
  setup.model = &model;
  setup.structure = &structure;
  setup.tokenizer = prompts.tokenizer();
  setup.eos = config.eos;
  if (!flags.rows.empty()) setup.options.rows = flags.rows;
  setup.options.context = flags.context;
  setup.options.compute = parse_dtype(flags.dtype);
  return setup;
}

void report(const Printer& printer, const runtime::CompileCounters& c, double load, double run) {
  double ready = c.trace_seconds + c.compile_seconds + c.load_seconds;
  double decode = std::max(run - ready, 1e-9);
  log_line(
      fmt::format("{} tokens in {:.2f} s, {:.1f} tokens/s; model loaded in {:.1f} s, "
                  "programs ready in {:.1f} s ({} compiled)",
                  printer.tokens(), decode, static_cast<double>(printer.tokens()) / decode, load,
                  ready, c.compiles));
}

// Steps the sampler until all is answered. Ctrl-C ends it between two tokens.
void answer_all(const Flags& flags, sample::Sampler& sampler, const runtime::TablePtr& parameters,
                Printer& printer) {
  Progress progress("generate");
  InterruptFlag interrupt;
  const int64_t total = sampler.pending();
  for (bool more = true; more;) {
    more = sampler.step(parameters, [&] { return interrupt.raised(); });
    for (sample::Result& r : sampler.take_results()) printer.add(std::move(r));
    const int64_t left = sampler.pending();
    if (!flags.stream) {
      progress.update(static_cast<double>(total - left), static_cast<double>(total),
                      fmt::format("{}", printer.tokens()));
    }
    if (left == 0 || !interrupt.raised()) continue;
    if (flags.stream && printer.plain()) fmt::print("\n");
    fail_interrupted("generate", fmt::format("{} answers", total),
                     fmt::format("an interruption before {} of them", left),
                     "What was printed is whole; the others were not kept");
  }
}

// Everything is read and checked before the model is loaded.
void generate(const Flags& flags) {
  auto model = models::build_model(std::filesystem::path(flags.model));
  std::unique_ptr<nn::Structure> placed = make_structure(*model, flags.layout);
  const nn::Structure& structure = *placed;
  sample::GenerationConfig config = sample::read_generation_config(flags.model);
  for (const std::string& line : config.declined) log_warning(line);
  sample::Prompts prompts = sample::Prompts::load(flags.model);
  std::vector<sample::RequestLine> lines = requests_of(flags, prompts, settings_of(flags, config));
  sample::SamplerSetup setup = setup_of(flags, *model, structure, config, prompts);
  setup.compiler = open_compiler(flags.layout, structure.mesh());
  sample::Sampler sampler(setup);
  Printer printer(flags, lines);
  for (sample::RequestLine& line : lines) {
    if (flags.stream && printer.plain()) {
      line.request.on_token = [](const sample::TokenEvent& e) {
        std::fwrite(e.text.data(), 1, e.text.size(), stdout);
        std::fflush(stdout);
      };
    }
    sampler.submit(std::move(line.request));
  }
  Stopwatch clock;
  runtime::TablePtr parameters = load_model(flags, *model, structure, setup.compiler->client());
  double loaded = clock.seconds();
  answer_all(flags, sampler, parameters, printer);
  report(printer, setup.compiler->counters(), loaded, clock.seconds() - loaded);
  if (!printer.error().empty()) {
    fail({.id = "cli.generate_failed",
          .where = "generate",
          .expected = "an answer to every request",
          .got = printer.error(),
          .code = Code::data_loss});
  }
}

struct SettingHelp {
  const char* name;
  const char* help;
};

constexpr SettingHelp kSettings[] = {
    {"max_new_tokens", "New tokens at most (default: the model's, else 256)"},
    {"min_new_tokens", "New tokens before the answer may end"},
    {"temperature", "Divides the logits; 0 takes the most likely token"},
    {"top_k", "Keep the k most likely tokens; 0 = all"},
    {"top_p", "Keep the most likely tokens up to this probability; 1 = all"},
    {"min_p", "Keep tokens at least this likely, as a share of the most likely; 0 = all"},
    {"repetition_penalty", "Above 1: tokens of prompt and answer become less likely"},
    {"frequency_penalty", "Subtracted from a token's logit each time it was generated"},
    {"presence_penalty", "Subtracted once it was generated"},
    {"stop", "A text that ends the answer; repeatable"},
    {"stop_ids", "A token id that ends the answer; repeatable"},
    {"seed", "Of the random numbers (default: a new one each time)"},
    {"samples", "Answers to each prompt"},
};

std::string option_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

void declare_settings(CLI::App& app, const std::shared_ptr<Flags>& flags) {
  for (const SettingHelp& s : kSettings) {
    app.add_option_function<std::vector<std::string>>(
           option_name(s.name),
           [flags, name = std::string(s.name)](const std::vector<std::string>& values) {
             flags->settings[name] = values;
           },
           s.help)
        ->group("Sampling (defaults: the model's generation_config.json)")
        ->allow_extra_args(false)
        ->take_all();
  }
  for (const char* name : {"ignore_eos", "processed_logprobs"}) {
    bool eos = std::string(name) == "ignore_eos";
    app.add_flag_callback(
           option_name(name), [flags, key = std::string(name)] { flags->settings[key] = {"true"}; },
           eos ? "The model's end-of-text tokens do not end an answer"
               : "Log-probabilities after penalties and filters instead of before")
        ->group("Sampling (defaults: the model's generation_config.json)");
  }
}

void declare_prompts(CLI::App& app, const std::shared_ptr<Flags>& flags) {
  app.add_option("--model", flags->model, "A model directory, checkpoint, run or stacked tree")
      ->required();
  auto* kinds = app.add_option_group("Prompt", "What to answer (one of these)");
  kinds->add_option_function<std::string>(
      "--prompt",
      [flags](const std::string& text) {
        flags->prompt = text;
        flags->has_prompt = true;
      },
      "A text to go on with");
  kinds->add_option_function<std::string>(
      "--chat",
      [flags](const std::string& text) {
        flags->chat = text;
        flags->has_chat = true;
      },
      "A user's message to answer, by the model's chat template");
  kinds->add_option("--input", flags->input,
                    "JSON lines {id, prompt | messages | tokens} with settings of their own");
  kinds->require_option(1);
}

void declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  declare_prompts(app, flags);
  app.add_flag("--stream", flags->stream, "Print the answer as it comes (one answer only)");
  app.add_flag("--json", flags->json,
               "Print a line {id, tokens, logprobs, text, finish_reason} for each answer");
  declare_settings(app, flags);
  app.add_option("--rows", flags->rows,
                 "Numbers of answers that may run at once, rising (default: 1 8 32)")
      ->delimiter(',');
  app.add_option("--context", flags->context, "Tokens of prompt and answer (default: the model's)");
  app.add_option("--dtype", flags->dtype, "Element type inside the model: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  flags->layout.scan = "off";  // unrolled layers decode faster on a CPU
  declare_layout(app, flags->layout);
  app.callback([flags] {
    flags->model = checkpoint::model_path(flags->model).string();
    generate(*flags);
  });
}

}  // namespace

Command generate_command() {
  return {"generate", "Answer prompts with a model",
          "strata generate --model DIR --chat 'What is 7 + 5?' --stream\n"
          "strata generate --model DIR --prompt 'Once upon a time' --temperature 0.8 --seed 1\n"
          "strata generate --model DIR --input prompts.jsonl --json --max-new-tokens 64\n",
          declare};
}

}  // namespace strata::cli
