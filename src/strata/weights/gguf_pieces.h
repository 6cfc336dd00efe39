// The parts of a tokenizer.json that stand for a SentencePiece BPE vocabulary (the
// `tokenizer.ggml.model` "llama"): merges instead of scores, marks instead of spaces.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "strata/base/json.h"

namespace strata::weights {

// SentencePiece joins two neighbours whenever the result is a piece, the best score first; so each
// way of cutting a piece into two others is a merge, in the order of falling scores. `mergeable`
// says which tokens are pieces; the three spans are of one length.
Json merges_of_pieces(std::span<const std::string_view> tokens, std::span<const uint8_t> mergeable,
                      std::span<const double> scores);

// Spaces become marks; with `prefix` a mark is put in front of a text first.
Json pieces_normalizer(bool prefix);
// The way back, byte tokens included.
Json pieces_decoder(bool prefix);

}  // namespace strata::weights
