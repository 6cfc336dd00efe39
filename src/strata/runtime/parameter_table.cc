#include "strata/runtime/parameter_table.h"

#include "strata/base/error.h"
#include "strata/base/strings.h"

namespace strata::runtime {

ParameterTable::ParameterTable(uint64_t version, std::vector<Entry> entries)
    : version_(version), entries_(std::move(entries)) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    bool holds = entries_[i].second != nullptr && !entries_[i].second->consumed();
    bool fresh = index_.emplace(entries_[i].first, i).second;
    if (holds && fresh) continue;
    fail({.id = "runtime.table_entry",
          .where = "parameter table, '" + entries_[i].first + "'",
          .expected = "one array under each name",
          .got = holds ? "a second one" : "an array that holds nothing"});
  }
}

TablePtr ParameterTable::make(uint64_t version, std::vector<std::pair<std::string, Array>> arrays) {
  std::vector<Entry> entries;
  for (auto& array : arrays) {
    // Made as Array and not as const Array, so that dissolve may move it out again.
    entries.emplace_back(std::move(array.first), std::make_shared<Array>(std::move(array.second)));
  }
  return std::make_shared<const ParameterTable>(version, std::move(entries));
}

const std::shared_ptr<const Array>& ParameterTable::share(const std::string& name) const {
  auto it = index_.find(name);
  if (it != index_.end()) return entries_[it->second].second;
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.first);
  fail({.id = "runtime.parameter",
        .where = "parameter table of version " + std::to_string(version_),
        .expected = "one of its " + std::to_string(names.size()) + " names",
        .got = "'" + name + "'",
        .cure = names.empty() ? "" : "Did you mean '" + nearest(name, names) + "'?",
        .code = Code::not_found});
}

std::vector<std::pair<std::string, Array>> ParameterTable::dissolve(TablePtr& table) {
  std::string holder = table.use_count() > 1 ? "the table" : "";
  for (const Entry& entry : table->entries_) {
    if (holder.empty() && entry.second.use_count() > 1) holder = "'" + entry.first + "'";
  }
  if (!holder.empty()) {
    fail({.id = "runtime.table_shared",
          .where = "parameter table of version " + std::to_string(table->version_),
          .expected = "a table that nobody else holds",
          .got = "another holder of " + holder,
          .cure = "Let readers drop their pointers first, or clone the arrays",
          .code = Code::failed_precondition});
  }
  std::vector<std::pair<std::string, Array>> arrays;
  for (const Entry& entry : table->entries_) {
    arrays.emplace_back(entry.first, std::move(*std::const_pointer_cast<Array>(entry.second)));
  }
  table.reset();
  return arrays;
}

TablePtr PublishedParameters::current() const {
  std::lock_guard lock(mutex_);
  return table_;
}

void PublishedParameters::publish(TablePtr table) {
  std::lock_guard lock(mutex_);
  if (table->version() <= highest_) {
    fail({.id = "runtime.table_version",
          .where = "published parameters",
          .expected = "a version above " + std::to_string(highest_),
          .got = std::to_string(table->version()),
          .code = Code::failed_precondition});
  }
  highest_ = table->version();
  table_ = std::move(table);
}

TablePtr PublishedParameters::withdraw() {
  std::lock_guard lock(mutex_);
  return std::move(table_);
}

}  // namespace strata::runtime
