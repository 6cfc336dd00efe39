// How the readers of tokenizer.json refuse a file.
#pragma once

#include <string>

#include "strata/base/error.h"

namespace strata::data {

// data_loss "tokenizer.malformed": the file is damaged.
[[noreturn]] inline void malformed_tokenizer(const std::string& where, const std::string& expected,
                                             const std::string& got) {
  fail({.id = "tokenizer.malformed",
        .where = where,
        .expected = expected,
        .got = got,
        .code = Code::data_loss});
}

// unimplemented "tokenizer.unsupported": the file asks for what is not read here.
[[noreturn]] inline void unsupported_tokenizer(const std::string& where,
                                               const std::string& expected,
                                               const std::string& got) {
  unimplemented({.id = "tokenizer.unsupported",
                 .where = where,
                 .expected = expected,
                 .got = got,
                 .cure = "Remove tokenizer.json if the directory also holds a SentencePiece "
                         "tokenizer.model"});
}

}  // namespace strata::data
