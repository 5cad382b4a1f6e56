// `zero launch`: see launch_flags.h for the command line and zero/launch/supervisor.h for what happens.
#include "zero/cli/launch_flags.h"
#include "zero/launch/supervisor.h"

namespace zero::cli {

int run_launch(Arguments arguments) {
  const auto options = parse_launch(arguments);
  return options ? launch(*options) : 0;
}

}  // namespace zero::cli
