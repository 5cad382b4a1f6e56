#include "zero/torch/pipeline/pass/crossings.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "zero/base/error/check.h"
#include "zero/comm/board/mailbox.h"
#include "zero/torch/seam/dispatch_key.h"

namespace zero {
namespace {

constexpr int kNoValue = -1;

// The end of a gradient's message: 1 if there is a gradient, else 0; then its strides. Strides decide which kernels the
// backward pass uses, so they must be those of a run without a pipeline.
constexpr std::size_t kMostDims = 15;
using GradientTail = std::array<std::int64_t, kMostDims + 1>;

std::int64_t bytes_of(const TensorLayout& layout) {
  std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(layout.type));
  for (const std::int64_t size : layout.sizes) bytes *= size;
  return bytes;
}

at::Tensor empty_bytes(std::int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
}

std::span<std::byte> span_of(const at::Tensor& bytes) {
  return {static_cast<std::byte*>(bytes.mutable_data_ptr()), bytes.nbytes()};
}

at::Tensor as_values(const at::Tensor& bytes, const TensorLayout& layout) {
  at::Tensor values = at::empty({0}, at::TensorOptions().dtype(layout.type));
  return values.set_(bytes.storage(), 0, layout.sizes);
}

at::Tensor pack_gradient(const at::Tensor& gradient, const TensorLayout& layout) {
  const std::int64_t size = bytes_of(layout);
  at::Tensor bytes = empty_bytes(size + static_cast<std::int64_t>(sizeof(GradientTail)));
  GradientTail tail{};
  if (gradient.defined()) {
    ZERO_CHECK(gradient.dim() <= static_cast<std::int64_t>(kMostDims), "{} dimensions", gradient.dim());
    tail[0] = 1;
    std::ranges::copy(gradient.strides(), tail.begin() + 1);
    const at::Tensor dense = with_own_bytes(gradient).contiguous();
    std::memcpy(bytes.mutable_data_ptr(), dense.const_data_ptr(), static_cast<std::size_t>(size));
  } else {
    std::memset(bytes.mutable_data_ptr(), 0, static_cast<std::size_t>(size));
  }
  std::memcpy(static_cast<std::byte*>(bytes.mutable_data_ptr()) + size, tail.data(), sizeof tail);
  return bytes;
}

at::Tensor unpack_gradient(const at::Tensor& bytes, const TensorLayout& layout) {
  GradientTail tail;
  std::memcpy(tail.data(), static_cast<const std::byte*>(bytes.const_data_ptr()) + bytes_of(layout), sizeof tail);
  if (tail[0] == 0) return {};
  const at::Tensor dense = as_values(bytes, layout);
  const std::vector<std::int64_t> strides(tail.begin() + 1,
                                          tail.begin() + 1 + static_cast<std::ptrdiff_t>(layout.sizes.size()));
  at::Tensor gradient = at::empty_strided(layout.sizes, strides, dense.options());
  at::Tensor from = dense, to = gradient;
  for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) {
    if (gradient.stride(dim) != 0 || gradient.size(dim) < 2) continue;  // an expanded dimension has one element
    from = from.narrow(dim, 0, 1);
    to = to.narrow(dim, 0, 1);
  }
  to.copy_(from);
  return gradient;
}

}  // namespace

Crossings::Crossings(Communicator& run, const PipelineGrid& grid, const PipelinePlan& plan, const ForwardPlan& forward,
                     Timeline* timeline)
    : run_(run),
      grid_(grid),
      plan_(plan),
      forward_(forward),
      timeline_(timeline),
      crossing_of_value_(forward.values.size(), -1),
      next_(static_cast<std::size_t>(plan.ranks), 0) {
  const std::vector<Crossing>& all = forward.sections.crossings;
  for (std::size_t i = 0; i < all.size(); ++i)
    crossing_of_value_[static_cast<std::size_t>(all[i].value)] = static_cast<int>(i);
  for (int position = 0; position < plan.ranks; ++position) expected_.push_back(messages(position, grid.position));
}

Crossings::Step::Step(Crossings& crossings) : mailbox_(crossings.run_.mailbox()) {
  if (mailbox_ == nullptr) return;
  mailbox_->while_waiting([&crossings, mailbox = mailbox_] { return crossings.receive_arrived(*mailbox); });
}

Crossings::Step::~Step() {
  if (mailbox_ != nullptr) mailbox_->while_waiting({});
}

const Crossing* Crossings::of_value(int value) const {
  const int index = crossing_of_value_[static_cast<std::size_t>(value)];
  return index < 0 ? nullptr : &forward_.sections.crossings[static_cast<std::size_t>(index)];
}

int Crossings::before(const Crossing& crossing, int section) {
  const auto at = std::ranges::find(crossing.to, section);
  ZERO_CHECK(at != crossing.to.end(), "section {} does not use value {}", section, crossing.value);
  return at == crossing.to.begin() ? crossing.from : *(at - 1);
}

std::int64_t Crossings::planned_bytes() const {
  std::int64_t bytes = 0;
  for (int position = 0; position < plan_.ranks; ++position)
    for (const Message& message : messages(grid_.position, position))
      bytes += bytes_of(forward_.values[static_cast<std::size_t>(message.value)]) +
               (message.is_gradient ? static_cast<std::int64_t>(sizeof(GradientTail)) : 0);
  return bytes;
}

// Returns all messages of one step from one position to another, in the order in which they are sent.
std::vector<Crossings::Message> Crossings::messages(int from, int to) const {
  if (from == to) return {};
  const auto receives = [&](int section) { return position_of(section) == to; };
  std::vector<Crossing> by_maker = forward_.sections.crossings;
  std::ranges::stable_sort(by_maker, {}, &Crossing::made_by);
  std::vector<Message> found;
  for (int number = 0; const Pass& pass : plan_.passes[static_cast<std::size_t>(from)]) {
    if (pass.kind == PassKind::kForward) {
      for (const Crossing& crossing : by_maker) {
        if (crossing.from != pass.section) continue;
        const auto first = std::ranges::find_if(crossing.to, receives);
        if (first != crossing.to.end()) found.push_back({false, pass.micro, crossing.value, *first, number});
      }
    } else if (pass.kind != PassKind::kWeights) {
      for (const Crossing& crossing : forward_.sections.crossings) {
        if (std::ranges::find(crossing.to, pass.section) == crossing.to.end()) continue;
        if (!forward_.values[static_cast<std::size_t>(crossing.value)].requires_grad) continue;
        const int receiver = before(crossing, pass.section);
        if (receives(receiver)) found.push_back({true, pass.micro, crossing.value, receiver, number});
      }
    }
    ++number;
  }
  return found;
}

// Returns the number of this rank's sections that use a value of another section.
int Crossings::takers(const Crossing& crossing) const {
  return static_cast<int>(
      std::ranges::count_if(crossing.to, [this](int section) { return position_of(section) == grid_.position; }));
}

int Crossings::pass_of(int section, int micro, bool is_backward) const {
  const std::vector<Pass>& passes = plan_.passes[static_cast<std::size_t>(position_of(section))];
  const auto found = std::ranges::find_if(passes, [&](const Pass& pass) {
    const bool is_kind = is_backward ? pass.kind == PassKind::kBackward || pass.kind == PassKind::kInputs
                                     : pass.kind == PassKind::kForward;
    return is_kind && pass.section == section && pass.micro == micro;
  });
  ZERO_CHECK(found != passes.end(), "section {} has no pass of micro-batch {}", section, micro);
  return static_cast<int>(found - passes.begin());
}

void Crossings::post(Sent sent) {
  sent_bytes_ += static_cast<std::int64_t>(sent.bytes.nbytes());
  sent.work = run_.send(span_of(sent.bytes), grid_.rank_at(sent.position), {});
  sent_.push_back(std::move(sent));
}

bool Crossings::receive_arrived(Mailbox& mailbox) {
  bool any = false;
  const int crowd = std::max(1, mailbox.room() / plan_.ranks);
  for (int position = 0; position < plan_.ranks; ++position) {
    if (position == awaited_) continue;
    const auto at = static_cast<std::size_t>(position);
    if (!mailbox.has_messages(grid_.rank_at(position), crowd)) continue;
    while (next_[at] < expected_[at].size() && mailbox.has_message(grid_.rank_at(position))) {
      receive_next(position, nullptr);
      any = true;
    }
  }
  return any;
}

template <typename Is>
void Crossings::forget_sent(Is is) {
  for (Sent& sent : sent_)
    if (is(sent)) sent.work.wait();
  std::erase_if(sent_, is);
}

void Crossings::send_value(int micro, int value, const at::Tensor& tensor) {
  const Crossing* const crossing = of_value(value);
  const TensorLayout& layout = forward_.values[static_cast<std::size_t>(value)];
  ZERO_CHECK(crossing != nullptr && tensor.sizes() == layout.sizes && tensor.scalar_type() == layout.type,
             "value {} is {}, planned {}", value, TensorLayout::of(tensor).text(), layout.text());
  const c10::AutoGradMode no_gradients(false);
  std::vector<bool> posted(static_cast<std::size_t>(plan_.ranks), false);
  at::Tensor bytes;
  for (const int section : crossing->to) {
    const auto position = static_cast<std::size_t>(position_of(section));
    if (posted[position]) continue;
    posted[position] = true;
    if (position_of(section) == grid_.position) {
      kept_[{false, micro, value, -1}] = {with_own_bytes(tensor), takers(*crossing)};
      continue;
    }
    if (!bytes.defined()) bytes = with_own_bytes(tensor).contiguous();
    // The reader may receive the value late in this pass. So only a message from its next pass shows that it has it.
    post({.work = {},
          .bytes = bytes,
          .micro = micro,
          .value = value,
          .position = position_of(section),
          .read_from = pass_of(section, micro, /*is_backward=*/false) + 1});
  }
}

at::Tensor Crossings::take_value(int micro, int value) {
  return take({false, micro, value, -1}, position_of(of_value(value)->from));
}

void Crossings::send_gradient(int micro, int value, int section, const at::Tensor& gradient) {
  const int to = before(*of_value(value), section);
  if (position_of(to) == grid_.position) {
    kept_[{true, micro, value, to}] = {gradient, 1};
    return;
  }
  const c10::AutoGradMode no_gradients(false);
  post({.work = {},
        .bytes = pack_gradient(gradient, forward_.values[static_cast<std::size_t>(value)]),
        .micro = micro,
        .value = kNoValue,
        .position = position_of(to),
        .read_from = pass_of(to, micro, /*is_backward=*/true)});
}

at::Tensor Crossings::take_gradient(int micro, int value, int section) {
  const Crossing& crossing = *of_value(value);
  // The next section that uses the value sends the gradient.
  const auto from = std::ranges::find_if(crossing.to, [section](int user) { return user > section; });
  ZERO_CHECK(from != crossing.to.end(), "no section after {} uses value {}", section, value);
  at::Tensor gradient = take({true, micro, value, section}, position_of(*from));
  // Every section that uses the value has added its part to the gradient, so all of them have received the value.
  if (section == crossing.from)
    forget_sent([&](const Sent& sent) { return sent.micro == micro && sent.value == value; });
  return gradient;
}

at::Tensor Crossings::take(const Key& key, int from) {
  auto found = kept_.find(key);
  while (found == kept_.end()) {
    ZERO_CHECK(from != grid_.position, "a tensor of this rank is taken before it is made");
    awaited_ = from;
    receive_next(from, timeline_);
    awaited_ = -1;
    found = kept_.find(key);
  }
  at::Tensor tensor = found->second.tensor;
  if (--found->second.takers == 0) kept_.erase(found);
  return tensor;
}

void Crossings::receive_next(int position, Timeline* timeline) {
  const auto at = static_cast<std::size_t>(position);
  ZERO_CHECK(next_[at] < expected_[at].size(), "position {} sends no further message", position);
  const Message& message = expected_[at][next_[at]++];
  const TensorLayout& layout = forward_.values[static_cast<std::size_t>(message.value)];
  // A wait within an operator may call this function.
  const c10::AutoGradMode no_gradients(false);
  const c10::impl::ExcludeDispatchKeyGuard not_taken(kParameterKey);
  const at::Tensor bytes =
      empty_bytes(bytes_of(layout) + (message.is_gradient ? static_cast<std::int64_t>(sizeof(GradientTail)) : 0));
  Work work = run_.receive(span_of(bytes), grid_.rank_at(position), {});
  TimedSpan waiting(timeline, Activity::kWaitSection, /*unit=*/-1, static_cast<std::int64_t>(bytes.nbytes()));
  work.wait();
  waiting.end();
  forget_sent([&](const Sent& sent) { return sent.position == position && sent.read_from <= message.pass; });
  if (message.is_gradient) {
    kept_[{true, message.micro, message.value, message.to}] = {unpack_gradient(bytes, layout), 1};
  } else {
    kept_[{false, message.micro, message.value, -1}] = {as_values(bytes, layout), takers(*of_value(message.value))};
  }
}

void Crossings::end_step() {
  for (Sent& sent : sent_) sent.work.wait();
  run_.drain();
  sent_.clear();
  for (std::size_t position = 0; position < expected_.size(); ++position)
    ZERO_CHECK(next_[position] == expected_[position].size(), "{} of {} messages from position {} were taken",
               next_[position], expected_[position].size(), position);
  ZERO_CHECK(kept_.empty(), "{} tensors were not taken", kept_.size());
  next_.assign(next_.size(), 0);
}

}  // namespace zero
