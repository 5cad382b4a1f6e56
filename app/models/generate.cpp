#include "app/models/generate.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"

namespace zero {
namespace {

constexpr std::int64_t kLineBreak = 10;
// Below it a draw gives the likeliest token, and quotients could be infinite in fp32.
constexpr double kLeastTemperature = 1e-6;

// Draws one token from logits [vocab].
std::int64_t draw(const torch::Tensor& logits, const GenerateOptions& options, at::Generator& generator) {
  if (options.temperature < kLeastTemperature) return logits.argmax().item<std::int64_t>();
  auto scaled = logits.to(at::kFloat) / options.temperature;
  if (options.top_k > 0 && options.top_k < scaled.size(0)) {
    const auto kept = std::get<0>(scaled.topk(options.top_k));
    scaled = scaled.masked_fill(scaled < kept[-1], -std::numeric_limits<double>::infinity());
  }
  return at::multinomial(scaled.softmax(-1), 1, /*replacement=*/false, generator).item<std::int64_t>();
}

// Puts a module into evaluation mode, and restores its mode when the scope ends, also by an exception.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& module) : module_(module), was_training_(module.is_training()) {
    module_.eval();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;
  ~EvaluationMode() { module_.train(was_training_); }

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

}  // namespace

void check(const GenerateOptions& o) {
  if (o.tokens < 0) throw ConfigError("--tokens", fmt::format("{}", o.tokens), "a negative count", "use 0 or more");
  require_number("--temperature", o.temperature, kAtLeastZero, "use 0 (always the likeliest), or for example 0.8");
  if (o.top_k < 0) throw ConfigError("--top-k", fmt::format("{}", o.top_k), "a negative count", "use 0 (all) or more");
}

std::vector<std::int64_t> generate(LanguageModel& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options, const std::function<void(std::int64_t)>& each) {
  check(options);
  std::vector<std::int64_t> tokens = prompt;
  if (tokens.empty()) tokens.push_back(std::min(kLineBreak, model.vocab() - 1));
  for (const std::int64_t token : tokens) {
    if (token >= 0 && token < model.vocab()) continue;
    throw ConfigError("--prompt", fmt::format("{}", token),
                      fmt::format("not one of the model's {} tokens", model.vocab()),
                      "write the prompt in characters that the model was trained on");
  }
  const std::size_t given = tokens.size();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation(model.module());
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto seen = std::min<std::int64_t>(static_cast<std::int64_t>(tokens.size()), model.context());
    const auto window = at::from_blob(tokens.data() + tokens.size() - seen, {1, seen}, at::kLong);
    const std::int64_t next = draw(model.next_token_logits(window.to(options.place))[0].cpu(), options, generator);
    tokens.push_back(next);
    if (each) each(next);
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end()};
}

}  // namespace zero
