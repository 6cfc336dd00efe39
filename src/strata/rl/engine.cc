#include "strata/rl/engine.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/transform/lower.h"

namespace strata::rl {
namespace {

using runtime::Argument;
using runtime::Array;

runtime::TablePtr make_table(uint64_t version, const nn::Structure& structure,
                             std::vector<Array> arrays) {
  std::vector<std::pair<std::string, Array>> entries;
  for (size_t i = 0; i < arrays.size(); ++i) {
    entries.emplace_back(structure.manifest().slots()[i].name, std::move(arrays[i]));
  }
  return runtime::ParameterTable::make(version, std::move(entries));
}

// An array lies as its declared type says, on the mesh's devices: nothing is quietly replicated.
void check_type(const Array& array, const sharding::ParamType& type, const sharding::Mesh& mesh,
                const std::string& name) {
  runtime::SpecPtr wanted = runtime::ArraySpec::sharded(type, mesh, name);
  require(!array.consumed() && *array.spec() == *wanted,
          {.id = "rl.engine_parameters",
           .where = name,
           .expected = wanted->text() + " as " + text_of(type),
           .got = array.consumed() ? "a consumed array" : array.spec()->text()});
}

}  // namespace

Engine::Engine(Setup setup, optim::UpdatePlan plan)
    : setup_(std::move(setup)), plan_(deferred(plan, setup_.structure->placement(), setup_.shape)) {
  const sharding::Placement& placement = setup_.structure->placement();
  setup_.shape = placed_shape(placement, setup_.shape);
  const sharding::Manifest& manifest = setup_.structure->manifest();
  for (const optim::Parameter& p : plan_.parameters()) {
    trained_.push_back(static_cast<size_t>(manifest.index_of(p.name)));
  }
  if (!plan_.slots().empty()) {
    ExecutorPtr initial;
    std::vector<Argument> begins;
    for (size_t i : trained_) {
      if (plan_.keeps_average()) begins.push_back(Argument::borrow(setup_.parameters.at(i)));
    }
    slots_ = program(initial, "slots").run(begins);
  }
  check_types(setup_.parameters, slots_);
  BatchTypes batch = batch_types(placement, setup_.shape);
  for (const std::string& reason : batch.reasons) {
    log_warning(fmt::format("{}: every device computes the whole batch, {} times the work", reason,
                            placement.mesh.size()));
  }
  grid_ = runtime::ArraySpec::sharded(batch.grid, placement.mesh, "batch");
  list_ = runtime::ArraySpec::sharded(batch.list, placement.mesh, "scored tokens");
  terms_ = runtime::ArraySpec::sharded(batch.terms, placement.mesh, "terms");
  table_ = make_table(version_, *setup_.structure, std::move(setup_.parameters));
}

void Engine::check_types(const std::vector<Array>& parameters,
                         const std::vector<Array>& slots) const {
  const auto& declared = setup_.structure->manifest().slots();
  const sharding::Mesh& mesh = setup_.structure->mesh();
  require(parameters.size() == declared.size() && slots.size() == plan_.slots().size(),
          {.id = "rl.engine_parameters",
           .where = "engine",
           .expected = std::to_string(declared.size()) + " parameters and " +
                       std::to_string(plan_.slots().size()) + " slots",
           .got = std::to_string(parameters.size()) + " and " + std::to_string(slots.size())});
  for (size_t i = 0; i < declared.size(); ++i) {
    check_type(parameters[i], declared[i].type, mesh, declared[i].name);
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    check_type(slots[i], plan_.slots()[i].type, mesh, plan_.slots()[i].name);
  }
}

std::unique_ptr<ir::Function> Engine::trace(const std::string& name) const {
  ModelView view{setup_.model, setup_.structure};
  if (name == "slots") return slots_function(plan_, setup_.structure->mesh());
  if (name == "update") return update_function(plan_, setup_.structure->mesh());
  if (name == "finite") return finite_function(plan_, setup_.structure->mesh());
  if (name == "average") return average_function(plan_, setup_.structure->mesh());
  if (name == "logprobs") return logprobs_function(view, setup_.shape, setup_.options);
  return gradients_function(view, plan_, setup_.shape, setup_.options, name == "accumulate");
}

runtime::Executor& Engine::program(ExecutorPtr& slot, const char* name) {
  if (slot) return *slot;
  Stopwatch clock;
  std::unique_ptr<ir::Function> function = trace(name);
  std::string text = transform::program_text(*function);
  runtime::CompileRequest request = runtime::request_for(*function, name);
  request.trace_seconds = clock.seconds();
  slot = std::make_unique<runtime::Executor>(setup_.compiler->compile(text, request));
  return *slot;
}

std::vector<runtime::MemoryReport> Engine::prepare(bool accumulating) {
  std::vector<std::pair<ExecutorPtr*, const char*>> wanted{{&gradients_, "gradients"}};
  if (accumulating) wanted.emplace_back(&accumulate_, "accumulate");
  wanted.emplace_back(&update_, "update");
  // Side by side: much of a compilation runs on one core.
  std::vector<std::future<runtime::MemoryReport>> reports;
  for (auto [slot, name] : wanted) {
    reports.push_back(std::async(std::launch::async, [this, slot = slot, name = name] {
      return memory_report(program(*slot, name).program());
    }));
  }
  std::vector<runtime::MemoryReport> out;
  for (auto& report : reports) out.push_back(report.get());
  return out;
}

std::vector<Array> Engine::upload(const TokenBatch& batch, double weight, double temperature) {
  invariant(batch.shape == setup_.shape, "rl.batch_shape", "a batch of the engine's shape");
  const runtime::ClientPtr& client = setup_.compiler->client();
  const sharding::Mesh& mesh = setup_.structure->mesh();
  std::vector<Array> out;
  for (const HostTensor* t : {&batch.ids, &batch.positions, &batch.segments, &batch.parents}) {
    out.push_back(Array::put(client, grid_, {t->bytes(), t->byte_size()}));
  }
  for (const HostTensor* t : {&batch.source, &batch.labels, &batch.sequence}) {
    out.push_back(Array::put(client, list_, {t->bytes(), t->byte_size()}));
  }
  out.push_back(Array::put(client, terms_, {batch.terms.bytes(), batch.terms.byte_size()}));
  out.push_back(Array::put(client, HostTensor::scalar(static_cast<float>(temperature)), mesh));
  out.push_back(Array::put(client, HostTensor::scalar(static_cast<float>(weight)), mesh));
  return out;
}

std::vector<float> Engine::accumulate(const TokenBatch& batch, double weight, double temperature) {
  bool first = accumulator_.empty();
  runtime::Executor& run =
      first ? program(gradients_, "gradients") : program(accumulate_, "accumulate");
  std::vector<Array> inputs = upload(batch, weight, temperature);
  std::vector<Argument> arguments;
  for (const auto& entry : table_->entries()) arguments.push_back(Argument::borrow(*entry.second));
  for (Array& a : accumulator_) arguments.push_back(Argument::donate(a));
  for (const Array& a : inputs) arguments.push_back(Argument::borrow(a));
  std::vector<Array> results = run.run(arguments);
  HostTensor metrics = results.back().get();
  results.pop_back();
  accumulator_ = std::move(results);
  auto values = metrics.data<float>();
  return {values.begin(), values.end()};
}

UpdateStats Engine::update() {
  require(!accumulator_.empty(), {.id = "rl.empty_update",
                                  .where = "update",
                                  .expected = "at least one batch since the last update",
                                  .got = "none",
                                  .code = Code::failed_precondition});
  runtime::Executor& run = program(update_, "update");
  std::vector<float> scalars = plan_.scalar_values(counts_.count);
  Array packed = Array::put(setup_.compiler->client(),
                            HostTensor::of<float>({static_cast<int64_t>(scalars.size())}, scalars),
                            setup_.structure->mesh());
  auto entries = runtime::ParameterTable::dissolve(table_);
  std::vector<Argument> arguments;
  for (size_t i : trained_) arguments.push_back(Argument::donate(entries[i].second));
  for (Array& a : slots_) arguments.push_back(Argument::donate(a));
  for (const Array& a : accumulator_) arguments.push_back(Argument::borrow(a));
  arguments.push_back(Argument::borrow(packed));
  std::vector<Array> results = run.run(arguments);
  for (size_t i = 0; i < trained_.size(); ++i) entries[trained_[i]].second = std::move(results[i]);
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i] = std::move(results[trained_.size() + i]);
  table_ = runtime::ParameterTable::make(++version_, std::move(entries));
  HostTensor stats = results.back().get();
  accumulator_.clear();
  return finish_update(stats);
}

UpdateStats Engine::finish_update(const HostTensor& stats) {
  auto v = stats.data<float>();
  UpdateStats out;
  out.loss = v[0];
  out.weight = v[1];
  out.outcome = optim::outcome_of(v[2] != 0, v[1], static_cast<int64_t>(v[4]));
  out.grad_norm = v[kUpdateStats];
  for (const optim::NamedScalar& s : plan_.scalars(counts_.count)) {
    if (s.name.starts_with("lr/")) {
      out.lr = s.value;
      break;
    }
  }
  optim::record(counts_, out.outcome, setup_.max_skipped);
  return out;
}

Engine::Scores Engine::logprobs(const TokenBatch& batch, double temperature,
                                const runtime::ParameterTable* parameters) {
  runtime::Executor& run = program(logprobs_, "logprobs");
  std::vector<Array> inputs = upload(batch, 1, temperature);
  std::vector<Argument> arguments;
  size_t at = 0;  // both tables are in the manifest's order
  for (const auto& current : table_->entries()) {
    const auto* other = parameters == nullptr || at == parameters->entries().size()
                            ? nullptr
                            : &parameters->entries()[at];
    const bool given = other != nullptr && other->first == current.first;
    arguments.push_back(Argument::borrow(given ? *other->second : *current.second));
    at += given ? 1 : 0;
  }
  invariant(parameters == nullptr || at == parameters->entries().size(), "rl.logprobs_parameters",
            "parameters of this model, in the manifest's order");
  for (const Array& a : inputs) arguments.push_back(Argument::borrow(a));
  std::vector<Array> results = run.run(arguments);
  HostTensor logprobs = results[0].get(), entropies = results[1].get();
  auto l = logprobs.data<float>(), e = entropies.data<float>();
  return {{l.begin(), l.end()}, {e.begin(), e.end()}};
}

void Engine::restore_parameters(std::vector<Array> parameters) {
  check_types(parameters, slots_);
  table_ = make_table(++version_, *setup_.structure, std::move(parameters));
  accumulator_.clear();
}

bool Engine::finite() {
  std::vector<Argument> arguments;
  for (size_t i : trained_) {
    arguments.push_back(Argument::borrow(*table_->entries()[i].second));
  }
  return program(finite_, "finite").run(arguments)[0].get().at(0) != 0;
}

bool Engine::averages_lie_as_parameters() const {
  for (size_t k = 0; k < trained_.size(); ++k) {
    const Array& parameter = *table_->entries()[trained_[k]].second;
    if (!(*parameter.spec() == *slots_[plan_.first_average() + k].spec())) return false;
  }
  return true;
}

// The trained parameters and `others` change places.
void Engine::swap_parameters(uint64_t version, std::vector<Array*> others) {
  auto entries = runtime::ParameterTable::dissolve(table_);
  for (size_t k = 0; k < trained_.size(); ++k) {
    std::swap(entries[trained_[k]].second, *others[k]);
  }
  table_ = runtime::ParameterTable::make(version, std::move(entries));
}

void Engine::with_average(const std::function<void()>& action) {
  invariant(plan_.keeps_average(), "rl.engine_average", "a plan that keeps a weight average");
  std::vector<Array> copies;
  if (!averages_lie_as_parameters()) {
    std::vector<Argument> arguments;
    for (size_t i = plan_.first_average(); i < slots_.size(); ++i) {
      arguments.push_back(Argument::borrow(slots_[i]));
    }
    copies = program(average_, "average").run(arguments);
  }
  std::vector<Array*> others;
  for (size_t k = 0; k < trained_.size(); ++k) {
    others.push_back(copies.empty() ? &slots_[plan_.first_average() + k] : &copies[k]);
  }
  const uint64_t version = table_->version();
  // No parameters of this run have had it, and none will: readers keep by version what they made.
  constexpr uint64_t kAverage = uint64_t{1} << 63;
  swap_parameters(version | kAverage, others);
  try {
    action();
  } catch (...) {
    swap_parameters(version, others);
    throw;
  }
  swap_parameters(version, others);
}

void Engine::restore(std::vector<Array> parameters, std::vector<Array> slots,
                     const optim::StepCounts& counts, std::vector<Array> accumulator) {
  check_types(parameters, slots);
  const std::vector<optim::SlotSpec>& sums = plan_.accumulator();
  invariant(accumulator.empty() || accumulator.size() == sums.size(), "rl.engine_accumulator",
            "all of an accumulator or nothing");
  for (size_t i = 0; i < accumulator.size(); ++i) {
    check_type(accumulator[i], sums[i].type, setup_.structure->mesh(), sums[i].name);
  }
  table_ = make_table(++version_, *setup_.structure, std::move(parameters));
  slots_ = std::move(slots);
  counts_ = counts;
  accumulator_ = std::move(accumulator);
}

}  // namespace strata::rl
