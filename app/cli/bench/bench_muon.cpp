// `zero bench muon`: parses the arguments. The products are computed in libzero_app.so.
#include "app/cli/bench/bench.h"
#include "app/cli/command/flags.h"
#include "app/cli/command/torch_library.h"

namespace zero::cli {

int run_bench_muon(Arguments arguments) {
  CLI::App app("Measures Muon's Newton-Schulz iterations of one matrix against the same iterations by libtorch.",
               "zero bench muon");
  BenchMuonRequest request;
  const auto side = CLI::Range(1, 1 << 15);
  app.add_option("--rows", request.rows, "rows of the matrix")->capture_default_str()->check(side);
  app.add_option("--columns", request.columns, "columns of the matrix")->capture_default_str()->check(side);
  app.add_option("--device", request.device, "device: cpu, cuda or cuda:1")->capture_default_str();
  app.add_option("--threads", request.threads, "number of threads")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--rounds", request.rounds, "measurements of each part")
      ->capture_default_str()
      ->check(CLI::Range(5, 1000));
  app.add_flag("--json", request.json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  // Memory of zero.cpp: the matrix and its workspace. Memory of libtorch: as much, and one product.
  require_memory(8 * 4 * request.rows * request.columns, "use fewer --rows or --columns");
  return open_torch_verbs().bench_muon(request);
}

}  // namespace zero::cli
