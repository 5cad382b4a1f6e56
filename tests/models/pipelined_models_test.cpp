// The project's models in sections over ranks have the bits of a run without a pipeline.
#include <memory>

#include <gtest/gtest.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "app/models/bert.h"
#include "app/models/gpt2.h"
#include "app/models/llama.h"
#include "tests/torch/pipeline/pipeline_run.h"

namespace zero {
namespace {

using tests::expect_same_bits;
using tests::PipelinedRun;
using tests::Subject;
using tests::train_pipelined;

torch::Tensor tokens_of(int step, int micro, int rank) {
  return (torch::arange(16, torch::kLong) * (step + 3) + micro * 5 + rank * 7).remainder(13).reshape({2, 8});
}

template <typename Model>
Subject language_model(const Model& model) {
  return {model.ptr(), [net = model.ptr()](int step, int micro, int rank) {
            const torch::Tensor tokens = tokens_of(step, micro, rank);
            const torch::Tensor logits = net->forward(tokens);
            return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), tokens.roll(1, 1).view({-1}));
          }};
}

Subject gpt2() {
  return language_model(Gpt2(Gpt2Options{.layers = 3, .width = 12, .heads = 3, .context = 8, .vocab = 13}));
}

Subject llama() {
  return language_model(
      Llama(LlamaOptions{.layers = 3, .width = 16, .heads = 4, .kv_heads = 2, .context = 8, .vocab = 13}));
}

Subject bert() {
  const Bert model(BertOptions{.layers = 3, .width = 16, .heads = 2, .context = 8, .vocab = 13, .classes = 3});
  return {model.ptr(), [net = model.ptr()](int step, int micro, int rank) {
            const torch::Tensor labels = tokens_of(step, micro, rank).select(1, 0).remainder(3);
            return at::cross_entropy_loss(net->forward(tokens_of(step, micro, rank)), labels);
          }};
}

void expect_no_pipelines_bits(const tests::MakeSubject& make) {
  for (const int micros : {1, 2, 4}) {
    const AttachOptions options{.stage = 0, .clip = 0.5, .accumulate = micros};
    const PipelinedRun plain = train_pipelined(1, 5, options, {.pipeline = 1}, make);
    for (const int pipeline : {2, 3}) {
      SCOPED_TRACE(std::to_string(pipeline) + " ranks, " + std::to_string(micros) + " micro-batches");
      expect_same_bits(train_pipelined(pipeline, 5, options, {.pipeline = pipeline}, make), plain);
    }
  }
}

TEST(PipelinedModels, Gpt2KeepsBits) {
  expect_no_pipelines_bits(gpt2);
}

TEST(PipelinedModels, LlamaKeepsBits) {
  expect_no_pipelines_bits(llama);
}

TEST(PipelinedModels, BertKeepsBits) {
  expect_no_pipelines_bits(bert);
}

TEST(PipelinedModels, StagesAndBf16KeepBits) {
  for (const int stage : {2, 3}) {
    const AttachOptions options{.stage = stage, .clip = 0.5, .accumulate = 2, .dtype = DType::kBFloat16};
    SCOPED_TRACE("stage " + std::to_string(stage));
    const PipelinedRun plain = train_pipelined(2, 5, options, {.pipeline = 1}, gpt2);
    expect_same_bits(train_pipelined(4, 5, options, {.pipeline = 2}, gpt2), plain);
  }
}

}  // namespace
}  // namespace zero
