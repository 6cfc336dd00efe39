// The report of a run: one HTML file that needs nothing beside it (no script, no font, no picture
// from elsewhere), readable in light and dark, on a phone and on paper.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "strata/rl/chart.h"
#include "strata/rl/machine.h"
#include "strata/rl/phases.h"

namespace strata::rl {

// One problem with the model's reply before and after training.
struct SampleReply {
  std::string prompt;
  std::string answer;
  std::string before;
  std::string after;
  bool before_right = false;
  bool after_right = false;
};

// All texts are plain text of any bytes; parts that are empty are left out of the page.
struct Report {
  // "GRPO: SmolLM2-135M-Instruct on arithmetic"
  std::string title;
  // "38.5% -> 77.0%": the one thing to know.
  std::string headline;
  // A sentence below it: "accuracy on 200 held-out problems, greedy, before and after".
  std::string summary;
  // A few figures shown large: {"Steps", "40"}, {"Time", "11:32"}, {"Peak memory", "3.2 GiB"}.
  std::vector<Fact> figures;
  std::vector<Chart> charts;
  std::vector<SampleReply> samples;
  // Their shares are of their sum.
  std::vector<PhaseTotals> phases;
  // Where the checkpoint, the exported model and the metrics are.
  std::vector<Fact> files;
  std::vector<Fact> configuration;
  std::vector<Fact> machine;
};

// The page. The same report gives the same bytes.
std::string html_report(const Report& report);

// Writes the page atomically. Throws as write_file_atomically.
void write_report(const std::filesystem::path& path, const Report& report);

// The leaves of nested objects as "train.lr" = "2e-05", for Report::configuration.
std::vector<Fact> facts_of(const Json& object);

}  // namespace strata::rl
