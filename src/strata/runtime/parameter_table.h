// Named device arrays of one version of a model, shared by everyone who reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/runtime/array.h"

namespace strata::runtime {

class ParameterTable;
using TablePtr = std::shared_ptr<const ParameterTable>;

// Immutable: an update is a new table, which may share arrays with the old one. Thread-safe.
class ParameterTable {
 public:
  using Entry = std::pair<std::string, std::shared_ptr<const Array>>;

  // Keeps the order. Throws invalid_argument "runtime.table_entry" for a doubled name or an array
  // that holds nothing.
  ParameterTable(uint64_t version, std::vector<Entry> entries);
  // Wraps arrays that become this table's own.
  static TablePtr make(uint64_t version, std::vector<std::pair<std::string, Array>> arrays);

  uint64_t version() const { return version_; }
  const std::vector<Entry>& entries() const { return entries_; }
  // Throws not_found "runtime.parameter" naming the nearest name.
  const Array& at(const std::string& name) const { return *share(name); }
  const std::shared_ptr<const Array>& share(const std::string& name) const;

  // Takes the arrays back, in order, so that they can be donated. Throws failed_precondition
  // "runtime.table_shared" while anyone else holds the table or one of its arrays; then nothing
  // changes and `table` stays.
  static std::vector<std::pair<std::string, Array>> dissolve(TablePtr& table);

 private:
  uint64_t version_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

// The current table. Readers take a pointer and keep their table for as long as they like; a
// publisher swaps it in one step. Thread-safe.
class PublishedParameters {
 public:
  // Null before the first publication.
  TablePtr current() const;
  // Throws failed_precondition "runtime.table_version" unless the version is higher than the
  // current one's.
  void publish(TablePtr table);
  // Takes the current table out, leaving null: the publisher's way to `dissolve` it.
  TablePtr withdraw();

 private:
  mutable std::mutex mutex_;
  TablePtr table_;
  uint64_t highest_ = 0;
};

}  // namespace strata::runtime
