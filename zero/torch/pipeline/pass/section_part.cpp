#include "zero/torch/pipeline/pass/section_part.h"

#include <algorithm>
#include <map>

#include "zero/base/error/check.h"
#include "zero/torch/seam/dispatch_key.h"

namespace zero {

// While it exists, the pass expects the part's operators again from the first one, and stores their results in a map of
// their own.
class SectionPass::Part::SecondRun {
 public:
  SecondRun(SectionPass& pass, int first) : pass_(pass), number_(pass.number_), made_(pass.made_now_) {
    pass_.number_ = first;
    pass_.made_now_ = &results_;
  }
  SecondRun(const SecondRun&) = delete;
  SecondRun& operator=(const SecondRun&) = delete;
  ~SecondRun() {
    pass_.number_ = number_;
    pass_.made_now_ = made_;
  }
  const at::Tensor& result(int value) const { return results_.at(value); }

 private:
  SectionPass& pass_;
  const int number_;
  std::map<int, at::Tensor>* const made_;
  std::map<int, at::Tensor> results_;
};

SectionPass::Part::Part(SectionPass& pass) : pass_(pass), first_(pass.number_) {
  ++pass_.first_runs_;
}

void SectionPass::Part::receive(const std::vector<at::Tensor>& inputs) {
  const c10::impl::ExcludeDispatchKeyGuard not_taken(kParameterKey);
  for (const at::Tensor& input : inputs) {
    const auto value = input.defined() ? absent_value(input) : std::nullopt;
    if (value && *value >= 0 && !is_filled(input) && pass_.comes_here(*value)) pass_.receive(input, *value);
  }
}

void SectionPass::Part::end_first_run(std::vector<at::Tensor>& outputs) {
  --pass_.first_runs_;
  end_ = pass_.number_;
  num_returned_ = outputs.size();
  for (const auto& [value, tensor] : *pass_.made_now_) {
    const auto made_by = [&](int number) {
      const std::vector<int>& made = pass_.plan_.graph.operators[static_cast<std::size_t>(number)].outputs;
      return std::ranges::find(made, value) != made.end();
    };
    bool is_made_here = false;
    for (int number = first_; number < end_ && !is_made_here; ++number) is_made_here = made_by(number);
    if (!is_made_here || !tensor.requires_grad()) continue;
    const auto same = std::ranges::find_if(outputs, [&](const at::Tensor& output) { return output.is_same(tensor); });
    crossing_.emplace_back(value, static_cast<std::size_t>(same - outputs.begin()));
    if (same == outputs.end()) outputs.push_back(tensor);
  }
}

void SectionPass::Part::set_outputs(const std::vector<at::Tensor>& outputs) {
  for (const auto& [value, index] : crossing_) (*pass_.made_now_)[value] = outputs[index];
}

std::vector<at::Tensor> SectionPass::Part::run_again(const std::function<std::vector<at::Tensor>()>& function) {
  const SecondRun run(pass_, first_);
  const TakeOperators scope(pass_);
  std::vector<at::Tensor> outputs = function();
  ZERO_CHECK(pass_.number_ == end_, "a checkpoint ran operators {} to {}, and then to {}", first_, end_, pass_.number_);
  for (const auto& [value, index] : crossing_)
    if (index >= num_returned_) outputs.push_back(run.result(value));
  return outputs;
}

// Checkpoints that begin at the same operator are nested, so they belong to one section.
std::unique_ptr<RepeatedPart> SectionPass::begin_checkpoint() {
  if (region_.is_open()) return nullptr;
  for (const auto& [first, end] : plan_.graph.kept_together) {
    if (first != number_) continue;
    for (int number = first; number < end; ++number) {
      const int section = plan_.sections.of_operator[static_cast<std::size_t>(number)];
      if (section == section_) return std::make_unique<Part>(*this);
      if (section != kEverywhere) return nullptr;
    }
  }
  return nullptr;
}

}  // namespace zero
