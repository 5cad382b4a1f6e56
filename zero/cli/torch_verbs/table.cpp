#include <torch/version.h>

#include "zero/cli/torch_verbs/verbs.h"

extern "C" const zero::cli::TorchVerbs* zero_torch_verbs() {
  static constexpr zero::cli::TorchVerbs kVerbs{.torch_version = TORCH_VERSION,
                                                .train = zero::cli::train_verb,
                                                .plan = zero::cli::plan_verb,
                                                .generate = zero::cli::generate_verb,
                                                .bench_step = zero::cli::bench_step_verb};
  return &kVerbs;
}
