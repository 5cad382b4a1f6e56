#include "zero/torch/deferred/deferred.h"

#include "app/models/gpt2.h"
#include "app/train/tasks/tasks.h"
#include "app/train/tasks/token_model.h"
#include "app/train/tasks/token_task.h"

namespace zero {

std::unique_ptr<Task> make_gpt2_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  require_context(model, data);
  const std::int64_t vocab = vocab_of(model, data.classes);
  auto store = make_store(model);
  const Gpt2Options options{.layers = model.layers,
                            .width = model.width,
                            .heads = model.heads,
                            .context = model.context,
                            .vocab = vocab,
                            .dropout = model.dropout,
                            .checkpoint = model.checkpoint_activations,
                            .checkpoint_options = store ? store->checkpoint_options() : CheckpointOptions{},
                            .random_weights = model.init.empty()};
  check(options);
  return std::make_unique<TokenTask<Gpt2>>(deferred([&] { return Gpt2(options); }, seed),
                                           TokenTaskOptions{.context = data.context,
                                                            .flops_per_token = flops_per_token(options, data.context),
                                                            .label_smoothing = model.label_smoothing,
                                                            .published = TransformersModel{.kind = PublishedKind::kGpt2,
                                                                                           .layers = options.layers,
                                                                                           .width = options.width,
                                                                                           .heads = options.heads,
                                                                                           .context = options.context,
                                                                                           .vocab = options.vocab,
                                                                                           .dropout = options.dropout}},
                                           std::move(store));
}

}  // namespace zero
