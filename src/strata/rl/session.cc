#include "strata/rl/session.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <unordered_set>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/checkpoint/model_files.h"
#include "strata/data/chat_encode.h"
#include "strata/models/registry.h"
#include "strata/nn/initial_values.h"
#include "strata/runtime/executor.h"
#include "strata/sample/generation_config.h"
#include "strata/transform/lower.h"
#include "strata/weights/tensor_source.h"

namespace strata::rl {
namespace {

namespace fs = std::filesystem;

void check_fit(const data::Tokenizer& tokenizer, const models::CausalLm& model,
               const fs::path& directory) {
  int64_t rows = model.config().vocabulary;
  require(tokenizer.vocab_size() <= rows,
          {.id = "rl.tokenizer_fit",
           .where = directory.string(),
           .expected =
               "a tokenizer of at most " + std::to_string(rows) + " ids (the model's vocab_size)",
           .got = std::to_string(tokenizer.vocab_size()) + " ids",
           .cure = "Model and tokenizer do not belong together"});
}

// Applies what the options ask for, unless the model directory has it.
void add_transform(models::CausalLm& model, const nn::ModelTransform& wanted,
                   const fs::path& directory) {
  const Json json = wanted.to_json();
  for (const Json& there : model.transforms()) {
    if (there.at("kind") != json.at("kind")) continue;
    require(there == json,
            {.id = "rl.transform_differs",
             .where = directory.string(),
             .expected = "what the configuration has: " + json.dump(),
             .got = there.dump(),
             .cure = "Leave the table out to go on with these, or export the model and start from "
                     "that",
             .code = Code::failed_precondition});
    return;
  }
  model.apply(wanted);
}

std::unordered_set<const nn::Param*> params_of(const models::CausalLm& model) {
  std::vector<const nn::Param*> all = model.all_params();
  return {all.begin(), all.end()};
}

// The model and its structure; says which slots the model directory does not have.
void open_model(Session& s) {
  s.model = models::build_model(s.options.model);
  const auto stored = params_of(*s.model);
  const SessionOptions& o = s.options;
  if (o.fake_quant) add_transform(*s.model, nn::FakeQuant(*o.fake_quant), o.model);
  if (o.lora) add_transform(*s.model, nn::Lora(*o.lora), o.model);
  s.structure = std::make_unique<nn::Structure>(*s.model, s.options.scan, s.model->ties());
  for (size_t i = 0; i < s.structure->manifest().size(); ++i) {
    s.is_new.push_back(!stored.contains(s.structure->members(i).front()));
  }
  for (const std::string& reason : s.structure->reasons()) log_line("not scanned: " + reason);
  s.structure->place(s.options.placement, s.model->sharding_rules());
  for (const std::string& reason : s.structure->placement().reasons) log_warning(reason);
}

// The part of the manifest that the model directory has.
sharding::Manifest stored_part(const Session& s) {
  const sharding::Manifest& all = s.structure->manifest();
  std::vector<sharding::Slot> slots;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!s.is_new[i]) slots.push_back(all.slots()[i]);
  }
  return sharding::Manifest(std::move(slots), all.ties(), all.plans());
}

// What the fields that transforms declared start from: an array a slot of the manifest, consumed
// ones where it has none. `stored` are those of stored_part.
std::vector<runtime::Array> initial_arrays(const Session& s,
                                           const std::vector<runtime::Array>& stored) {
  nn::InitialValues initial = nn::initial_values(*s.model, *s.structure);
  runtime::Executor program(
      s.compiler->compile(transform::program_text(*initial.function),
                          runtime::request_for(*initial.function, initial.function->name())));
  const uint64_t seed = s.options.seed;
  const std::vector<uint32_t> words{static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)};
  runtime::Array key = runtime::Array::put(
      s.compiler->client(), HostTensor::of<uint32_t>({2}, words), s.structure->mesh());
  std::vector<runtime::Argument> arguments;
  const auto& slots = s.structure->manifest().slots();
  for (size_t i = 0, at = 0; i < slots.size(); ++i) {
    if (s.is_new[i]) continue;
    if (slots[i].kind == sharding::Kind::param) {
      arguments.push_back(runtime::Argument::borrow(stored[at]));
    }
    ++at;
  }
  arguments.push_back(runtime::Argument::borrow(key));
  std::vector<runtime::Array> results = program.run(arguments);
  std::vector<runtime::Array> out(slots.size());
  for (size_t i = 0; i < results.size(); ++i) out[initial.slots[i]] = std::move(results[i]);
  return out;
}

// Whether the table is there; overrides set keys without one.
bool has_any(const Config& config, const std::string& table,
             std::initializer_list<const char*> keys) {
  return config.has(table) || std::any_of(keys.begin(), keys.end(), [&](const char* key) {
           return config.has(table + "." + key);
         });
}

}  // namespace

sharding::PlacementOptions read_placement(Config& config) {
  sharding::PlacementOptions o;
  o.mesh = sharding::Mesh::parse(config.text("sharding.mesh", ""));
  for (const std::string& rule : config.texts("sharding.rules")) {
    o.rules.push_back(sharding::parse_rule(rule));
  }
  for (const std::string& spec : config.texts("sharding.specs")) {
    o.specs.push_back(sharding::parse_spec_rule(spec));
  }
  o.strict = config.flag("sharding.strict", false);
  return o;
}

std::optional<nn::FakeQuantConfig> read_fake_quant(Config& config) {
  if (!has_any(config, "fake_quant", {"format", "per_channel", "targets"})) return std::nullopt;
  const std::vector<std::string> formats = {"int8", "fp8_e4m3"};
  nn::FakeQuantConfig q;
  q.format = nn::parse_quant_format(config.choice("fake_quant.format", "int8", formats));
  q.per_channel = config.flag("fake_quant.per_channel", true);
  q.targets = config.texts("fake_quant.targets");
  return q;
}

std::optional<nn::LoraConfig> read_lora(Config& config) {
  if (!has_any(config, "lora", {"rank", "alpha", "rslora", "targets"})) return std::nullopt;
  nn::LoraConfig l;
  l.rank = config.integer("lora.rank", {1, 65536});
  l.alpha = config.number("lora.alpha", {0, std::numeric_limits<double>::infinity(), true});
  l.rslora = config.flag("lora.rslora", false);
  l.targets = config.texts("lora.targets");
  nn::Lora{l};  // checks it
  return l;
}

SessionOptions read_session_options(Config& config) {
  SessionOptions o;
  o.model = checkpoint::model_path(config.text("model.path"));
  o.scan.mode = nn::parse_scan_mode(config.text("layers.scan", "auto"));
  o.scan.remat = ops::parse_remat(config.text("layers.remat", "dots"));
  o.scan.param_axis = config.integer("layers.param_scan_axis", 0, {-1, 8});
  o.scan.nested = config.flag("layers.nested", false);
  o.placement = read_placement(config);
  o.fake_quant = read_fake_quant(config);
  o.lora = read_lora(config);
  o.seed = static_cast<uint64_t>(config.integer("run.seed", 0, {0, int64_t{1} << 40}));
  return o;
}

Session open_session(const SessionOptions& options, std::shared_ptr<runtime::Compiler> compiler) {
  Session s;
  s.options = options;
  open_model(s);
  s.tokenizer.emplace(data::Tokenizer::load(options.model));
  check_fit(*s.tokenizer, *s.model, options.model);
  try {
    s.chat.emplace(data::ChatTemplate::load(options.model));
  } catch (const Error& e) {
    if (e.code() != Code::not_found) throw;
  }
  s.compiler = std::move(compiler);
  return s;
}

std::vector<int32_t> Session::prompt_ids(const std::vector<Message>& messages) const {
  require(chat.has_value(), {.id = "rl.no_chat_template",
                             .where = options.model.string(),
                             .expected = "a chat template (chat_template.jinja or "
                                         "tokenizer_config.json)",
                             .got = "none",
                             .code = Code::failed_precondition});
  Json list = Json::array();
  for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  data::ChatOptions o;
  o.add_generation_prompt = true;
  return data::encode_chat(*tokenizer, *chat, list, o).ids;
}

std::vector<runtime::Array> Session::load_parameters() const {
  auto source = weights::open_source(options.model);
  std::vector<runtime::Array> stored =
      checkpoint::load_parameters(stored_part(*this), *source, compiler->client(),
                                  {.mesh = structure->mesh(), .ignorable = model->ignorable()});
  if (stored.size() == is_new.size()) return stored;
  std::vector<runtime::Array> all = initial_arrays(*this, stored);
  for (size_t i = 0, at = 0; i < is_new.size(); ++i) {
    if (!is_new[i]) all[i] = std::move(stored[at++]);
  }
  return all;
}

std::vector<int32_t> Session::eos_ids() const {
  return sample::read_generation_config(options.model).eos;
}

}  // namespace strata::rl
