#include "strata/runtime/executor.h"

#include <fmt/format.h>

#include <utility>

#include "strata/base/error.h"

namespace strata::runtime {

Executor::Executor(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

std::vector<Array> Executor::run(std::span<const Argument> arguments) {
  try {
    check(arguments);
    fill(arguments);
    pjrt::Execution execution = program_->executable().execute(buffers_, scratch_, keep_);
    done_ = std::move(execution.done);
    for (const Argument& argument : arguments) {
      if (argument.donated) argument.array->reset();
    }
    return wrap(std::move(execution.outputs));
  } catch (Error& e) {
    e.add_context("while running " + program_->name());
    throw;
  }
}

void Executor::wait() const {
  try {
    for (const pjrt::Event& event : done_) event.wait();
  } catch (Error& e) {
    e.add_context("while running " + program_->name());
    throw;
  }
}

void Executor::check(std::span<const Argument> arguments) const {
  const std::vector<Slot>& parameters = program_->parameters();
  if (arguments.size() != parameters.size()) {
    fail({.id = "runtime.argument_count",
          .where = "program " + program_->name(),
          .expected = fmt::format("{} arguments", parameters.size()),
          .got = std::to_string(arguments.size())});
  }
  bool any_donated = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& a = arguments[i];
    any_donated = any_donated || a.donated;
    // Nearly always the very spec that the program knows; the rest is for telling why not.
    bool plain = a.array != nullptr && a.array->spec_ == parameters[i].spec &&
                 (!a.donated || (parameters[i].donated && !a.array->view_));
    if (!plain) check_argument(i, a);
  }
  if (any_donated) check_shared(arguments);
}

void Executor::check_argument(size_t index, const Argument& argument) const {
  const Slot& slot = program_->parameters()[index];
  bool holds = argument.array != nullptr && !argument.array->consumed();
  bool fits = holds && *argument.array->spec() == *slot.spec;
  if (fits && (!argument.donated || (slot.donated && !argument.array->is_view()))) return;
  std::string where =
      fmt::format("program {}, argument {} '{}'", program_->name(), index, slot.name);
  if (!holds) {
    fail({.id = "runtime.array_consumed",
          .where = where,
          .expected = "an array that holds device memory",
          .got = "a consumed one (donated to a program, moved from, or never filled)",
          .cure = "Use the program's result in its place, or clone() before donating",
          .code = Code::failed_precondition});
  }
  if (!fits) {
    fail({.id = "runtime.argument_type",
          .where = where,
          .expected = slot.spec->text(),
          .got = argument.array->spec()->text()});
  }
  if (!slot.donated) {
    fail({.id = "runtime.donate_unused",
          .where = where,
          .expected = "a borrowed array: the program only reads this parameter",
          .got = "a donated one, whose memory would not be reused"});
  }
  fail({.id = "runtime.donate_view",
        .where = where,
        .expected = "an array that owns its memory",
        .got = "a donated view of foreign memory",
        .cure = "clone() it, or borrow"});
}

// Marks the donated arrays, looks whether one comes twice, and takes the marks off again.
void Executor::check_shared(std::span<const Argument> arguments) const {
  size_t twice = arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].donated) continue;
    if (arguments[i].array->donating_) twice = i;
    arguments[i].array->donating_ = true;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].donated && arguments[i].array->donating_) twice = i;
  }
  for (const Argument& a : arguments) {
    if (a.donated) a.array->donating_ = false;
  }
  if (twice == arguments.size()) return;
  size_t first = 0;
  while (arguments[first].array != arguments[twice].array) ++first;
  fail({.id = "runtime.donate_shared",
        .where = fmt::format("program {}, argument {} '{}'", program_->name(), twice,
                             program_->parameters()[twice].name),
        .expected = "an array of its own",
        .got = fmt::format("the donated array of argument {} '{}'", first,
                           program_->parameters()[first].name),
        .cure = "clone() one of them"});
}

void Executor::fill(std::span<const Argument> arguments) {
  size_t devices = program_->executable().device_ids().size();
  buffers_.clear();
  for (size_t d = 0; d < devices; ++d) {
    for (const Argument& a : arguments) {
      buffers_.push_back(d == 0 ? &a.array->first_ : &a.array->rest_[d - 1]);
    }
  }
  keep_.clear();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (program_->parameters()[i].donated && !arguments[i].donated) {
      keep_.push_back(static_cast<int64_t>(i));
    }
  }
}

std::vector<Array> Executor::wrap(std::vector<pjrt::Buffer> outputs) {
  size_t count = program_->results().size();
  size_t devices = program_->executable().device_ids().size();
  invariant(outputs.size() == count * devices, "runtime.output_count",
            "as many results as the program's signature has");
  std::vector<Array> arrays;
  arrays.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const SpecPtr& spec = program_->results()[i].spec;
    std::vector<pjrt::Buffer> rest;
    for (size_t d = 1; d < devices; ++d) rest.push_back(std::move(outputs[d * count + i]));
    arrays.emplace_back(spec, std::move(outputs[i]), std::move(rest), Array::Unchecked());
    if (!results_checked_) arrays.back().check_layout();
  }
  results_checked_ = true;
  return arrays;
}

std::vector<HostTensor> run_on_host(const std::shared_ptr<const Program>& program,
                                    std::span<const HostTensor> arguments) {
  const auto& client = program->executable().client();
  std::vector<Array> arrays;
  for (const HostTensor& host : arguments) {
    arrays.push_back(Array::put(client, host, program->executable().device_ids()[0]));
  }
  std::vector<Argument> list;
  for (size_t i = 0; i < arrays.size(); ++i) {
    bool donated = i < program->parameters().size() && program->parameters()[i].donated;
    list.push_back(donated ? Argument::donate(arrays[i]) : Argument::borrow(arrays[i]));
  }
  Executor executor(program);
  std::vector<HostTensor> results;
  for (const Array& array : executor.run(list)) results.push_back(array.get());
  return results;
}

}  // namespace strata::runtime
