#include "strata/base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace strata {
namespace {

void write_line(const std::string& line) {
  // One write call, so that lines of several threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void log_line(std::string_view text) { write_line(fmt::format("strata: {}\n", text)); }

void log_warning(std::string_view text) { write_line(fmt::format("strata: warning: {}\n", text)); }

Progress::Progress(std::string label)
    : label_(std::move(label)), live_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) write_line("\n");
}

void Progress::update(double done, double total, std::string_view note) {
  if (!live_) return;
  double now = clock_.seconds();
  bool last = total > 0 && done >= total;
  if (!last && last_ >= 0 && now - last_ < 0.1) return;
  last_ = now;
  drawn_ = true;
  std::string bar;
  if (total > 0) {
    int filled = static_cast<int>(24 * done / total);
    bar =
        fmt::format(" [{:#<{}}{:.<{}}] {:3.0f}%", "", filled, "", 24 - filled, 100 * done / total);
    if (done > 0 && !last) bar += fmt::format(" ETA {:.0f}s", now / done * (total - done));
  }
  write_line(fmt::format("\r\033[K{}{} {}", label_, bar, note));
}

}  // namespace strata
