#include "strata/checkpoint/directory.h"

#include <system_error>

#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

Code code_of(const std::error_code& error) {
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return Code::not_found;
  }
  if (error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
      error == std::errc::read_only_file_system) {
    return Code::permission_denied;
  }
  if (error == std::errc::no_space_on_device) return Code::resource_exhausted;
  return Code::data_loss;
}

void check(const std::error_code& error, const fs::path& path, const char* expected) {
  if (!error) return;
  fail({.id = "checkpoint.directory",
        .where = path.string(),
        .expected = expected,
        .got = error.message(),
        .code = code_of(error)});
}

}  // namespace

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check(error, path, "a place where a directory can be made");
}

std::vector<fs::path> list_directory(const fs::path& path) {
  std::vector<fs::path> entries;
  std::error_code error;
  if (!fs::exists(path, error)) return entries;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    entries.push_back(it->path());
  }
  check(error, path, "a readable directory");
  return entries;
}

void remove_directory(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  check(error, path, "a directory that can be removed");
}

void put_text(const fs::path& path, const std::string& text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

}  // namespace strata::checkpoint
