#include "zero/engine/options/same_refusal.h"

#include <exception>
#include <string>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {

void refuse_alike(Communicator& comm, const std::function<void()>& body) {
  std::exception_ptr own;
  std::string key, words;
  try {
    body();
  } catch (const ConfigError& error) {
    own = std::current_exception();
    key = error.key();
    words = error.what();
  }
  const auto keys = all_gather_text(comm, key), all = all_gather_text(comm, words);
  if (own != nullptr) std::rethrow_exception(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) throw ConfigError(keys[rank], "", fmt::format("rank {} rejects it", rank), all[rank]);
  }
}

}  // namespace zero
