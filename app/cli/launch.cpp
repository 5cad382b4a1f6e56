#include "app/cli/verbs.h"

// `zero launch`: launch_flags.h describes the command line, and app/launch/launch.h describes the launcher.
#include <cstdlib>

#include "zero/comm/transport/record_flight.h"

#include "app/cli/launch_flags.h"
#include "app/launch/flight_records.h"
#include "app/launch/launch.h"

namespace zero::cli {

int run_launch(Arguments arguments) {
  auto options = parse_launch(arguments);
  if (!options) return 0;
  if (const auto folder = flight_folder(std::getenv); !folder.empty()) {
    options->after_failure = [folder](const MemoryFiles& kept, std::span<const RankEnd> ends, int) {
      return write_flights(folder, kept, ends);
    };
  }
  return launch(*options);
}

}  // namespace zero::cli
