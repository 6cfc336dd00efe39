// Text in HTML.
#pragma once

#include <string>
#include <string_view>

namespace strata::rl {

// Any bytes as text of an HTML element or a quoted attribute: & < > " ' as entities, ill-formed
// UTF-8 as U+FFFD, control characters (but line breaks and tabs) as their pictures U+2400...
std::string escape_html(std::string_view text);

}  // namespace strata::rl
