// ModelInSections: a language model whose forward pass runs through the sections of a pipeline.
//
//   ModelInSections model(*task.language_model(), pipeline);
//   generate(model, prompt, {.tokens = 100});        // Collective: on every rank of the line
//
// Its logits have the bits of the whole model. Each new number of tokens plans a forward pass (PipelineEvaluation).
#pragma once

#include "zero/torch/pipeline/attach_pipeline.h"

#include "app/models/language_model.h"

namespace zero {

class ModelInSections final : public LanguageModel {
 public:
  // Both must outlive the object.
  ModelInSections(LanguageModel& model, PipelineEngine& pipeline) : model_(model), pipeline_(pipeline) {}

  torch::nn::Module& module() override { return model_.module(); }
  torch::Tensor next_token_logits(const torch::Tensor& tokens) override {
    return pipeline_.evaluate({kNextToken, tokens.size(0), tokens.size(1)},
                              [&] { return std::vector{model_.next_token_logits(tokens)}; })[0];
  }
  std::int64_t context() const override { return model_.context(); }
  std::int64_t vocab() const override { return model_.vocab(); }

 private:
  static constexpr std::int64_t kNextToken = -1;  // evaluations of losses have keys of sizes

  LanguageModel& model_;
  PipelineEngine& pipeline_;
};

}  // namespace zero
