// SectionPass::Part: an activation checkpoint whose operators a section's pass computes.
//
// All operators of the checkpoint belong to this section, so its second run needs no other rank. It uses the received
// inputs again, and sends nothing. A result that crosses is an output of the checkpoint, also if its function does not
// return it, because another section sends its gradient. Local.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "zero/torch/pipeline/pass/section_pass.h"
#include "zero/torch/seam/operator_taker.h"

namespace zero {

class SectionPass::Part final : public RepeatedPart {
 public:
  explicit Part(SectionPass& pass);  // the first run begins

  void receive(const std::vector<at::Tensor>& inputs) override;
  void end_first_run(std::vector<at::Tensor>& outputs) override;
  void set_outputs(const std::vector<at::Tensor>& outputs) override;
  std::vector<at::Tensor> run_again(const std::function<std::vector<at::Tensor>()>& function) override;

 private:
  class SecondRun;

  SectionPass& pass_;
  const int first_;                                    // number of the checkpoint's first operator
  int end_ = 0;                                        // number after its last operator
  std::size_t num_returned_ = 0;                       // by the function
  std::vector<std::pair<int, std::size_t>> crossing_;  // a value that crosses, and its number among the outputs
};

}  // namespace zero
