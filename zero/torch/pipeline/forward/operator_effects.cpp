#include "zero/torch/pipeline/forward/operator_effects.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/enum_tag.h>

#include "zero/torch/pipeline/forward/forward_plan.h"

namespace zero {
namespace {

// Returns whether an operator that may draw numbers draws none: its probability is 0, or it is in evaluation mode.
bool draws_nothing(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const bool drops = op.schema().name().find("dropout") != std::string::npos;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[stack.size() - arguments.size() + i];
    const std::string& name = arguments[i].name();
    const bool is_probability = name == "dropout_p" || name == "dropout" || (drops && name == "p");
    if (is_probability && value.isDouble() && value.toDouble() == 0) return true;
    if ((name == "train" || name == "training") && value.isBool() && !value.toBool()) return true;
  }
  return false;
}

}  // namespace

bool draws_numbers(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  return op.hasTag(at::Tag::nondeterministic_seeded) && !draws_nothing(op, stack);
}

bool has_own_generator(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "generator" && !stack[stack.size() - arguments.size() + i].isNone()) return true;
  return false;
}

bool draws_by_sizes(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 13> kNames{
      "aten::bernoulli_",   "aten::bernoulli",    "aten::uniform_",      "aten::normal_",    "aten::random_",
      "aten::exponential_", "aten::cauchy_",      "aten::log_normal_",   "aten::geometric_", "aten::rand_like",
      "aten::randn_like",   "aten::randint_like", "aten::native_dropout"};
  return std::ranges::find(kNames, op.schema().name()) != kNames.end();
}

bool has_dynamic_shape(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return false;
  if (op.schema().name() != "aten::index") return true;
  bool has_mask = false;
  for_each_argument(op, stack, [&, first = true](const at::Tensor& tensor, bool) mutable {
    if (std::exchange(first, false) || !tensor.defined()) return;
    has_mask = has_mask || tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
  });
  return has_mask;
}

bool compares_with_itself(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (op.schema().name() != "aten::equal") return false;
  const at::Tensor& a = stack[stack.size() - 2].toTensor();
  const at::Tensor& b = stack.back().toTensor();
  // is_alias_of() would read the pointers, which absent tensors refuse.
  return a.has_storage() && b.has_storage() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

void answer_true(torch::jit::Stack& stack) {
  torch::jit::drop(stack, 2);
  stack.emplace_back(true);
}

bool has_statistics(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  const bool is_norm = name.find("batch_norm") != std::string::npos || name.find("instance_norm") != std::string::npos;
  return is_norm && std::ranges::any_of(op.schema().arguments(), [](const c10::Argument& argument) {
           return argument.name() == "running_mean";
         });
}

std::vector<at::Tensor> updated_statistics(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!has_statistics(op) || op.schema().name().find("no_update") != std::string::npos) return {};
  const auto& arguments = op.schema().arguments();
  std::vector<at::Tensor> updated;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[stack.size() - arguments.size() + i];
    const std::string& name = arguments[i].name();
    const bool says_training = name == "training" || name == "train";  // an instance norm always writes
    if (says_training && value.isBool() && !value.toBool()) return {};
    const bool is_statistic = name == "running_mean" || name == "running_var";
    if (is_statistic && value.isTensor() && value.toTensor().defined()) updated.push_back(value.toTensor());
  }
  return updated;
}

std::vector<at::Tensor> written_arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::vector<at::Tensor> written = updated_statistics(op, stack);
  for_each_argument(op, stack, [&](const at::Tensor& tensor, bool is_written) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(tensor); };
    if (is_written && tensor.defined() && std::ranges::none_of(written, is_same)) written.push_back(tensor);
  });
  return written;
}

}  // namespace zero
