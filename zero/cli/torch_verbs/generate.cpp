// `zero generate`: text from a finished run's weights.
#include "zero/models/generate.h"

#include <iostream>

#include <ATen/Parallel.h>

#include "zero/base/error.h"
#include "zero/base/machine.h"
#include "zero/cli/torch_verbs/job.h"
#include "zero/cli/torch_verbs/verbs.h"
#include "zero/train/run_folder.h"
#include "zero/train/weights.h"

namespace zero::cli {
namespace {

// A vocabulary of 0 was the data's; the weights know how many that were.
std::int64_t vocab_of(const ModelConfig& model, const RunFolder& folder) {
  if (model.vocab > 0) return model.vocab;
  const auto file = SafetensorsFile::open(folder.model(), "run");
  return file.at("transformer.wte.weight").shape.at(0);
}

}  // namespace

int generate_verb(const GenerateRequest& request) {
  const RunFolder folder(request.run);
  folder.require_finished();
  const Config config = load_config({.file = folder.config(), .check_files = false}).config;
  const ModelConfig& m = config.model;
  if (m.name != "gpt2")
    throw ConfigError("run", request.run, "trained a " + m.name + ", which knows no text", "name the run of a gpt2");
  at::set_num_threads(num_usable_cores());
  Gpt2 model(Gpt2Options{.layers = m.layers,
                         .width = m.width,
                         .heads = m.heads,
                         .context = m.context,
                         .vocab = vocab_of(m, folder),
                         .random_weights = false});
  read_weights(*model, folder.model());
  std::vector<std::int64_t> prompt;
  for (const char byte : request.prompt) prompt.push_back(static_cast<unsigned char>(byte));
  const bool text = config.data.kind == "text";
  if (text) std::cout << request.prompt;
  generate(model, prompt,
           {.tokens = request.tokens, .temperature = request.temperature, .top_k = request.top_k, .seed = request.seed},
           [&](std::int64_t token) {
             if (text) {
               std::cout << static_cast<char>(token) << std::flush;
             } else {
               std::cout << token << ' ' << std::flush;
             }
           });
  std::cout << '\n';
  return 0;
}

}  // namespace zero::cli
