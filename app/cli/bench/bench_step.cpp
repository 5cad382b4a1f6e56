// `zero bench step`: parses the arguments. The step runs in libzero_app.so.
#include "app/cli/bench/bench.h"
#include "app/cli/command/configured.h"
#include "app/cli/command/torch_library.h"
#include "app/config/rules/thread_rules.h"

namespace zero::cli {

int run_bench_step(Arguments arguments) {
  CLI::App app("Measures a training step and its parts.", "zero bench step");
  BenchStepRequest request;
  app.add_option("--rounds", request.steps, "steps to measure")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_flag("--json", request.json, "print one JSON object");
  ConfigArguments config(app);
  if (!config.parse(app, arguments)) return 0;
  request.loaded = config.load(/*check_files=*/false);
  require_threads(request.loaded);
  return open_torch_verbs().bench_step(request);
}

}  // namespace zero::cli
