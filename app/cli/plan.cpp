#include "app/cli/verbs.h"

// `zero plan`: parses the arguments. The plan needs a module's shapes, and so libtorch.
#include <fmt/format.h>

#include "zero/base/error/error.h"

#include "app/cli/command/configured.h"
#include "app/cli/command/torch_library.h"
#include "app/config/cluster_file.h"
#include "app/config/rules/fit_to_world.h"

namespace zero::cli {

int run_plan(Arguments arguments) {
  CLI::App app(
      "Prints memory and traffic of each rank, whether they fit this machine, and the time of a step. Allocates no "
      "model.",
      "zero plan");
  std::int64_t world = 1;
  std::int64_t machines = 1;
  bool schedule = false;
  bool json = false;
  app.add_option("-n,--world", world, "number of ranks")->capture_default_str();
  app.add_option("--machines", machines, "number of machines like this machine, which share the ranks")
      ->capture_default_str();
  app.add_flag("--schedule", schedule, "print the actions of a step");
  app.add_flag("--json", json, "print one JSON object");
  std::string profile;
  app.add_option("--profile", profile,
                 "folder of a finished run with all states on the device: its compute times replace estimates");
  std::string cluster_file;
  app.add_option("--cluster", cluster_file,
                 "TOML file of machines and links: prints the step time there for several layouts");
  ConfigArguments config(app);
  if (!config.parse(app, arguments)) return 0;
  // The data need not be on the machine where a job is planned.
  PlanRequest request{.loaded = config.load(/*check_files=*/false),
                      .world = world,
                      .schedule = schedule,
                      .json = json,
                      .profile = profile,
                      .machines = machines};
  if (!cluster_file.empty()) {
    const Cluster cluster = read_cluster(cluster_file);
    if ((app.count("--world") > 0 && world != cluster.world()) ||
        (app.count("--machines") > 0 && machines != cluster.hosts))
      throw ConfigError(
          "--cluster", cluster_file,
          fmt::format("{} machines of {} ranks are not what --world and --machines say", cluster.hosts, cluster.ranks),
          "leave out --world and --machines: the file says both");
    world = request.world = cluster.world();
    machines = request.machines = cluster.hosts;
    request.cluster = cluster;
  }
  if (world < 1) throw ConfigError("--world", std::to_string(world), "not a number of ranks", "use 1 or more");
  if (machines < 1 || machines > world || world % machines != 0)
    throw ConfigError("--machines", std::to_string(machines),
                      fmt::format("{} ranks cannot be spread over that many machines evenly", world),
                      "give a number that divides --world");
  fit_to_world(request.loaded, world);
  return open_torch_verbs().plan(request);
}

}  // namespace zero::cli
