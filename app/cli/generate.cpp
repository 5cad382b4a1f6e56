#include "app/cli/verbs.h"

// `zero generate`: parses the arguments. The model runs in libzero_app.so.
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/no_run.h"
#include "zero/checkpoint/whole_checkpoint.h"

#include "app/cli/command/flags.h"
#include "app/cli/command/torch_library.h"

namespace zero::cli {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

// Checks the run folder before libtorch is loaded.
void check_run(const std::string& run) {
  const std::filesystem::path folder = run;
  std::error_code ignored;
  const auto holds = [&](const char* file) { return std::filesystem::is_regular_file(folder / file, ignored); };
  if (is_checkpoint(folder) || (holds("config.toml") && holds("model.safetensors"))) return;
  if (!CheckpointFolder(folder / "checkpoints").list().empty()) return;
  if (const auto no_run = why_no_run(folder)) throw ConfigError("RUN", run, no_run->reason, no_run->remedy);
  throw ConfigError("RUN", run, "holds no weights: neither model.safetensors of a finished run nor a checkpoint",
                    "name the [run] dir of a `zero train` that has ended or saved, or a checkpoint's folder");
}

}  // namespace

int run_generate(Arguments arguments) {
  CLI::App app("Prints text from the weights of a run, or from its newest checkpoint if it has not ended.",
               "zero generate");
  GenerateRequest request;
  std::int64_t seed = static_cast<std::int64_t>(request.seed);
  app.add_option("RUN", request.run, "folder of a run, or of one of its checkpoints")->required();
  app.add_option("--prompt", request.prompt, "text to continue")->required();
  app.add_option("--tokens", request.tokens, "number of tokens to add")->capture_default_str();
  app.add_option("--temperature", request.temperature, "randomness of the choice; 0: always the most likely token")
      ->capture_default_str();
  app.add_option("--top-k", request.top_k, "number of most likely tokens to choose from; 0: all")
      ->capture_default_str();
  app.add_option("--seed", seed, "seed of the choice: the same seed draws the same text")->capture_default_str();
  app.add_flag("--best", request.best, "use the best checkpoint (checkpoint.keep_best), not the newest");
  if (!parse_flags(app, arguments)) return 0;
  check_run(request.run);
  if (request.prompt.empty()) throw ConfigError("--prompt", "\"\"", "an empty prompt", "give at least one character");
  if (request.tokens < 1 || request.tokens > kMostTokens)
    throw ConfigError("--tokens", std::to_string(request.tokens), "out of range",
                      fmt::format("allowed: 1 to {}", kMostTokens));
  require_number("--temperature", request.temperature, kAtLeastZero,
                 "use 0 (always the likeliest), or for example 0.8");
  if (request.top_k < 0)
    throw ConfigError("--top-k", std::to_string(request.top_k), "out of range", "allowed: 0 or more");
  if (seed < 0) throw ConfigError("--seed", std::to_string(seed), "out of range", "allowed: 0 or more");
  request.seed = static_cast<std::uint64_t>(seed);
  return open_torch_verbs().generate(request);
}

}  // namespace zero::cli
