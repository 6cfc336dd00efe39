#include "strata/cli/exit_status.h"

#include <fmt/format.h>

#include <string_view>

namespace strata::cli {
namespace {

struct Row {
  int status;
  std::string_view meaning;
};

constexpr Row kRows[] = {
    {kSuccess, "success"},
    {kInternal, "a fault of Strata itself"},
    {kUsage, "a command line that cannot be understood"},
    {3, "wrong input: configuration, arguments, data or a model that does not fit"},
    {4, "a file, name or plug-in that is missing or may not be read"},
    {5, "damaged data: truncated, malformed or inconsistent"},
    {6, "a lawful request that Strata or the plug-in does not serve"},
    {kOutOfResources, "out of memory or disk space"},
    {8, "another process died, hung or cannot be reached"},
    {130, "interrupted; what a training run had done is saved"},
};

}  // namespace

int exit_status(Code code) {
  switch (code) {
    case Code::invalid_argument:
    case Code::out_of_range:
    case Code::failed_precondition:
    case Code::already_exists:
      return 3;
    case Code::not_found:
    case Code::permission_denied:
    case Code::unauthenticated:
      return 4;
    case Code::data_loss:
      return 5;
    case Code::unimplemented:
      return 6;
    case Code::resource_exhausted:
      return kOutOfResources;
    case Code::unavailable:
    case Code::deadline_exceeded:
    case Code::aborted:
      return 8;
    case Code::cancelled:
      return 130;
    case Code::internal:
    case Code::unknown:
      return kInternal;
  }
  return kInternal;
}

std::string exit_status_help() {
  std::string text = "Exit status:\n";
  for (const Row& row : kRows) text += fmt::format("  {:>3}  {}\n", row.status, row.meaning);
  return text;
}

}  // namespace strata::cli
