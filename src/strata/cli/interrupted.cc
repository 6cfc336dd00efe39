#include "strata/cli/interrupted.h"

#include "strata/base/error.h"

namespace strata::cli {

void fail_interrupted(const std::string& where, const std::string& expected, const std::string& got,
                      const std::string& cure) {
  fail({.id = "cli.interrupted",
        .where = where,
        .expected = expected,
        .got = got,
        .cure = cure,
        .code = Code::cancelled});
}

void stop_if_raised(const InterruptFlag& flag, const std::string& where) {
  if (!flag.raised()) return;
  fail_interrupted(where, "all of it to be written", "an interruption",
                   "Nothing is left of it: run the command again");
}

}  // namespace strata::cli
