#include "zero/torch/pipeline/forward/buffer_uses.h"

#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "zero/base/error/check.h"

namespace zero {

BufferUses::BufferUses(const std::vector<ModelTensors::Buffer>& buffers, std::vector<bool> of_sections)
    : buffers_(buffers), of_sections_(std::move(of_sections)) {
  ZERO_CHECK(of_sections_.size() == buffers.size(), "{} of {} buffers", of_sections_.size(), buffers.size());
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) {
    const at::Tensor& tensor = buffers[buffer].tensor;
    if (tensor.has_storage()) numbers_[tensor.storage().unsafeGetStorageImpl()].push_back(static_cast<int>(buffer));
  }
}

BufferUses::~BufferUses() {
  const c10::AutoGradMode no_gradients(false);
  for (const auto& [buffer, values] : before_) buffers_[static_cast<std::size_t>(buffer)].tensor.copy_(values);
}

const std::vector<int>* BufferUses::find(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const auto found = numbers_.find(tensor.storage().unsafeGetStorageImpl());
  return found == numbers_.end() ? nullptr : &found->second;
}

const std::string& BufferUses::name_of(const at::Tensor& tensor) const {
  return buffers_[static_cast<std::size_t>(find(tensor)->front())].name;
}

void BufferUses::use(const at::Tensor& tensor, int number, std::vector<int>& found) {
  for (const int buffer : *find(tensor)) {
    first_use_.try_emplace(buffer, number);
    const bool is_new = std::ranges::find(found, buffer) == found.end();
    if (of_sections_[static_cast<std::size_t>(buffer)] && is_new) found.push_back(buffer);
  }
}

void BufferUses::write(const at::Tensor& tensor, int number, bool everywhere, std::vector<int>& found) {
  for (const int buffer : *find(tensor)) {
    const auto at = static_cast<std::size_t>(buffer);
    const int first_use = first_use_.try_emplace(buffer, number).first->second;
    if (everywhere) {
      if (!before_.contains(buffer)) before_[buffer] = buffers_[at].tensor.detach().clone();
    } else if (!of_sections_[at]) {
      of_sections_[at] = true;
      found_late_ = found_late_ || first_use < number;
      found.push_back(buffer);
    }
  }
}

bool BufferUses::is_written(const at::Tensor& tensor) const {
  return std::ranges::any_of(*find(tensor), [this](int buffer) {
    return before_.contains(buffer) || of_sections_[static_cast<std::size_t>(buffer)];
  });
}

std::vector<int> BufferUses::section_buffers() const {
  std::vector<int> found;
  for (std::size_t buffer = 0; buffer < of_sections_.size(); ++buffer)
    if (of_sections_[buffer]) found.push_back(static_cast<int>(buffer));
  return found;
}

std::vector<int> BufferUses::common_buffers() const {
  std::vector<int> found;
  for (const auto& [buffer, values] : before_)
    if (!of_sections_[static_cast<std::size_t>(buffer)]) found.push_back(buffer);
  return found;
}

}  // namespace zero
