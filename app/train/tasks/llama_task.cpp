#include "zero/torch/deferred/deferred.h"

#include "app/models/llama.h"
#include "app/train/tasks/tasks.h"
#include "app/train/tasks/token_model.h"
#include "app/train/tasks/token_task.h"

namespace zero {
namespace {

TransformersModel published(const LlamaOptions& options) {
  return {.kind = PublishedKind::kLlama,
          .layers = options.layers,
          .width = options.width,
          .heads = options.heads,
          .kv_heads = options.key_heads(),
          .hidden = options.hidden_width(),
          .context = options.context,
          .vocab = options.vocab,
          .rope_theta = options.rope_theta,
          .norm_eps = options.norm_eps,
          .tie_embeddings = options.tie_embeddings};
}

}  // namespace

std::unique_ptr<Task> make_llama_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  require_context(model, data);
  const std::int64_t vocab = vocab_of(model, data.classes);
  auto store = make_store(model);
  const LlamaOptions options{.layers = model.layers,
                             .width = model.width,
                             .heads = model.heads,
                             .kv_heads = model.kv_heads,
                             .hidden = model.hidden,
                             .context = model.context,
                             .vocab = vocab,
                             .rope_theta = model.rope_theta,
                             .norm_eps = model.norm_eps,
                             .tie_embeddings = model.tie_embeddings,
                             .checkpoint = model.checkpoint_activations,
                             .checkpoint_options = store ? store->checkpoint_options() : CheckpointOptions{},
                             .random_weights = model.init.empty()};
  check(options);
  return std::make_unique<TokenTask<Llama>>(deferred([&] { return Llama(options); }, seed),
                                            TokenTaskOptions{.context = data.context,
                                                             .flops_per_token = flops_per_token(options, data.context),
                                                             .label_smoothing = model.label_smoothing,
                                                             .published = published(options)},
                                            std::move(store));
}

}  // namespace zero
