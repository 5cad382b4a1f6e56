#include "zero/torch/deferred/deferred.h"

#include "app/models/bert.h"
#include "app/train/tasks/row_task.h"
#include "app/train/tasks/tasks.h"
#include "app/train/tasks/token_model.h"

namespace zero {
namespace {

TransformersModel published(const BertOptions& options) {
  return {.kind = PublishedKind::kBert,
          .layers = options.layers,
          .width = options.width,
          .heads = options.heads,
          .hidden = options.hidden_width(),
          .context = options.context,
          .vocab = options.vocab,
          .classes = options.classes,
          .pad = options.pad,
          .dropout = options.dropout};
}

}  // namespace

std::unique_ptr<Task> make_bert_task(const ModelOptions& model, const SampleShape& data, std::uint64_t seed) {
  require_context(model, data);
  const std::int64_t vocab = vocab_of(model, data.vocab);
  auto store = make_store(model);
  const BertOptions options{.layers = model.layers,
                            .width = model.width,
                            .heads = model.heads,
                            .hidden = model.hidden,
                            .context = model.context,
                            .vocab = vocab,
                            .classes = data.classes,
                            .pad = data.pad,
                            .dropout = model.dropout,
                            .checkpoint = model.checkpoint_activations,
                            .checkpoint_options = store ? store->checkpoint_options() : CheckpointOptions{},
                            .random_weights = model.init.empty()};
  check(options);
  return std::make_unique<RowTask<Bert>>(deferred([&] { return Bert(options); }, seed),
                                         RowTaskOptions{.classifies = true,
                                                        .flops = flops_per_sequence(options, data.context),
                                                        .label_smoothing = model.label_smoothing,
                                                        .published = published(options)},
                                         std::move(store));
}

std::optional<SampleShape> bert_shape(const ModelOptions& model, DataKind data, std::int64_t context) {
  if (data != DataKind::kWordOrder || model.vocab == 0) return std::nullopt;
  return SampleShape{.context = context, .classes = 2, .vocab = model.vocab};
}

}  // namespace zero
