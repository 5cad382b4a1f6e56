#include "app/cli/bench/bench.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"

#include "app/config/options/suggest.h"
#include "app/config/options/value.h"

namespace zero::cli {
namespace {

constexpr std::array kParts{
    Verb{"checkpoint", "saving and loading a rank's file against a plain io_uring loop", run_bench_checkpoint},
    Verb{"comm", "all_reduce between ranks against adding and copying the same bytes", run_bench_comm},
    Verb{"disk", "the disk tier's writes and reads against a plain io_uring loop", run_bench_disk},
    Verb{"muon", "Muon's matrix products against libtorch's (needs libtorch)", run_bench_muon},
    Verb{"offload", "an optimizer step on disk against only reads, only writes and only updates", run_bench_offload},
    Verb{"optimizer", "an update rule against memory: the same reads and writes", run_bench_optimizer},
    Verb{"step", "a training step and its parts (needs libtorch)", run_bench_step},
};

}  // namespace

std::span<const Verb> bench_parts() {
  return kParts;
}

int run_bench(Arguments arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print(
        "Measures a part against the limit probed in the same run.\n\nUsage: zero bench PART [flags] [--json]\n\n");
    for (const auto& part : kParts) fmt::print("  {:<12}{}\n", part.name, part.help);
    fmt::print("\n  zero bench PART --help   flags of a part\n");
    return 0;
  }
  std::vector<std::string_view> names;
  for (const auto& part : kParts) {
    if (part.name == arguments[0]) return part.run(arguments.subspan(1));
    names.push_back(part.name);
  }
  throw ConfigError(shown(arguments[0]), "", "unknown part",
                    did_you_mean(arguments[0], names) + "parts: checkpoint comm disk muon offload optimizer step");
}

void require_memory(std::int64_t bytes, std::string_view remedy) {
  const std::int64_t available = available_memory();
  if (available >= bytes) return;
  throw ConfigError("memory", format_bytes(available), fmt::format("{} are needed", format_bytes(bytes)), remedy);
}

}  // namespace zero::cli
