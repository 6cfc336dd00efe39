#include "strata/rl/session.h"

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/checkpoint/load_parameters.h"
#include "strata/data/chat_encode.h"
#include "strata/models/registry.h"
#include "strata/sample/generation_config.h"
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

}  // namespace

sharding::PlacementOptions read_placement(Config& config) {
  sharding::PlacementOptions o;
  o.mesh = sharding::Mesh::parse(config.text("sharding.mesh", ""));
  for (const std::string& rule : config.texts("sharding.rules")) {
    o.rules.push_back(sharding::parse_rule(rule));
  }
  o.strict = config.flag("sharding.strict", false);
  return o;
}

SessionOptions read_session_options(Config& config) {
  SessionOptions o;
  o.model = config.text("model.path");
  o.scan.mode = nn::parse_scan_mode(config.text("layers.scan", "auto"));
  o.scan.remat = ops::parse_remat(config.text("layers.remat", "dots"));
  o.scan.param_axis = config.integer("layers.param_scan_axis", 0, {-1, 8});
  o.scan.nested = config.flag("layers.nested", false);
  o.placement = read_placement(config);
  return o;
}

Session open_session(const SessionOptions& options, std::shared_ptr<runtime::Compiler> compiler) {
  Session s;
  s.options = options;
  s.model = models::build_model(options.model);
  s.structure = std::make_unique<nn::Structure>(*s.model, options.scan, s.model->ties());
  for (const std::string& reason : s.structure->reasons()) log_line("not scanned: " + reason);
  s.structure->place(options.placement, s.model->sharding_rules());
  for (const std::string& reason : s.structure->placement().reasons) log_warning(reason);
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
  return checkpoint::load_parameters(structure->manifest(), *source, compiler->client(),
                                     {.mesh = structure->mesh(), .ignorable = model->ignorable()});
}

std::vector<int32_t> Session::eos_ids() const {
  return sample::read_generation_config(options.model).eos;
}

}  // namespace strata::rl
