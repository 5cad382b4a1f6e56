#include "app/cli/command/turn_to_speak.h"

#include "zero/base/error/error.h"
#include "zero/checkpoint/image/same_outcome.h"

namespace zero::cli {

std::chrono::seconds wait_before_words(const std::exception& error, const RankEnvironment& ranks) {
  constexpr std::chrono::seconds kNow{0}, kAfterTheFirst{3};  // mpirun ends the other ranks after one second
  if (ranks.world == 1 || ranks.source == "zero launch") return kNow;
  if (const auto* const of_peer = dynamic_cast<const CommError*>(&error)) {
    const int accused = of_peer->rank();
    if (accused == ranks.rank) return kNow;
    // A rank that was killed or stopped cannot report its own failure.
    if (ranks.rank != (accused == 0 ? 1 : 0)) return kAfterTheFirst;
    return kNow;
  }
  const bool alike =
      dynamic_cast<const ConfigError*>(&error) != nullptr || dynamic_cast<const SharedIoError*>(&error) != nullptr;
  return alike && ranks.local_rank != 0 ? kAfterTheFirst : kNow;
}

}  // namespace zero::cli
