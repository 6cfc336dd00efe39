#include "strata/data/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata::data {
namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

}  // namespace

struct SentencePieceModel::Processor {
  sentencepiece::SentencePieceProcessor sp;
};

SentencePieceModel::SentencePieceModel(const std::filesystem::path& path)
    : processor_(std::make_unique<Processor>()) {
  std::string text = read_file(path);
  auto status = text.empty() ? sentencepiece::util::Status(
                                   sentencepiece::util::StatusCode::kDataLoss, "an empty file")
                             : processor_->sp.LoadFromSerializedProto(text);
  if (!status.ok()) {
    fail({.id = "tokenizer.sentencepiece",
          .where = path.string(),
          .expected = "a SentencePiece model",
          .got = std::string(status.message()),
          .cure = "Provide the tokenizer.json of this model instead",
          .code = Code::data_loss});
  }
  std::vector<int> probe;
  encode("a", &probe);
  prefix_space_ = !probe.empty() && bytes(probe[0]).substr(0, 1) == " ";
}

SentencePieceModel::SentencePieceModel(SentencePieceModel&&) noexcept = default;
SentencePieceModel& SentencePieceModel::operator=(SentencePieceModel&&) noexcept = default;
SentencePieceModel::~SentencePieceModel() = default;

void SentencePieceModel::encode(std::string_view text, std::vector<int32_t>* ids) const {
  std::vector<int> out;
  auto status = processor_->sp.Encode({text.data(), text.size()}, &out);
  invariant(status.ok(), "tokenizer.sentencepiece_encode", status.ToString());
  ids->insert(ids->end(), out.begin(), out.end());
}

int32_t SentencePieceModel::size() const { return processor_->sp.GetPieceSize(); }

std::string SentencePieceModel::spelling(int32_t id) const {
  return std::string(processor_->sp.IdToPiece(id));
}

std::string SentencePieceModel::bytes(int32_t id) const {
  std::string piece = spelling(id);
  const auto& sp = processor_->sp;
  if (sp.IsByte(id)) return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
  std::string out;
  for (size_t i = 0; i < piece.size();) {
    if (piece.compare(i, kSpaceMark.size(), kSpaceMark) == 0) {
      out.push_back(' ');
      i += kSpaceMark.size();
    } else {
      out.push_back(piece[i++]);
    }
  }
  return out;
}

std::vector<AddedToken> SentencePieceModel::control_tokens() const {
  std::vector<AddedToken> tokens;
  for (int32_t id = 0; id < size(); ++id) {
    if (!processor_->sp.IsControl(id)) continue;
    AddedToken token;
    token.id = id;
    token.content = spelling(id);
    token.special = true;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

int32_t SentencePieceModel::bos_id() const { return processor_->sp.bos_id(); }

}  // namespace strata::data
