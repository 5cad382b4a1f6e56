// Crossings: the tensors that cross between sections within one step, and their gradients.
//
//   Crossings crossings(run, grid, plan, forward);
//   const Crossings::Step step(crossings);
//   crossings.send_value(micro, value, x);                     // as soon as it is made
//   at::Tensor x = crossings.take_value(micro, value);         // at its first use in another section
//   crossings.send_gradient(micro, value, section, gradient);  // after that section's backward pass
//   crossings.take_gradient(micro, value, section);            // at the begin of the backward pass of `section`
//   crossings.end_step();
//
// The plan fixes the order of messages from one rank to another. It is the order of the sender's passes, and within a
// pass that of the values. If a rank needs a later message first, it receives the earlier messages and keeps them. Two
// sections of one rank exchange tensors without a message. If several sections use a value, its gradient is sent from
// the last of them to the first. Each adds its own part, so the order of the sum is that of autograd without a
// pipeline.
//
// A communicator may hold a limited number of messages that their receivers have not read. So while this rank waits for
// any other rank in a step, it receives and keeps the messages of ranks with many unread messages (mailbox.h).
// Otherwise ranks could wait for each other forever.
//
// A sent tensor is kept until a message shows that its reader has received it (Sent::read_from), or the step ends. A
// sent value is also released when its gradient arrives. All functions may wait for other ranks, unless they are Local.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "zero/base/process/timeline.h"
#include "zero/comm/communicator.h"
#include "zero/plan/pipeline/pipeline.h"
#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/torch/pipeline/forward/forward_plan.h"

namespace zero {

class Crossings {
 public:
  // `timeline`: records the waits for other sections; null: none.
  Crossings(Communicator& run, const PipelineGrid& grid, const PipelinePlan& plan, const ForwardPlan& forward,
            Timeline* timeline = nullptr);

  // A step. While it exists, this rank receives messages of the step in its waits. Local.
  class Step {
   public:
    explicit Step(Crossings& crossings);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Mailbox* const mailbox_;  // null: messages do not wait for room
  };

  void send_value(int micro, int value, const at::Tensor& tensor);
  at::Tensor take_value(int micro, int value);
  // `gradient` may be undefined. `section`: the section whose backward pass made it. It includes the parts of all later
  // sections that use the value.
  void send_gradient(int micro, int value, int section, const at::Tensor& gradient);
  // The result may be undefined. `section`: the section that made the value, or one that uses it.
  at::Tensor take_gradient(int micro, int value, int section);
  // Waits until all tensors of this rank are read.
  void end_step();

  // Local. Returns the crossing of a value, or null.
  const Crossing* of_value(int value) const;
  std::int64_t sent_bytes() const { return sent_bytes_; }  // of all steps so far
  // Local. Returns the bytes that this rank sends in a step, by the plan.
  std::int64_t planned_bytes() const;

 private:
  struct Message {
    bool is_gradient = false;
    int micro = 0;
    int value = 0;
    int to = 0;    // section; of a value: the first of the receiving rank that uses it
    int pass = 0;  // index among the sender's passes
  };
  using Key = std::tuple<bool, int, int, int>;  // is_gradient, micro, value, to; for a value, `to` is -1
  struct Kept {
    at::Tensor tensor;
    int takers = 1;  // sections of this rank that have not taken it yet
  };
  struct Sent {
    Work work;
    at::Tensor bytes;
    int micro = 0;
    int value = 0;      // -1: a gradient
    int position = 0;   // of its reader
    int read_from = 0;  // pass of the reader; a message from this pass or a later one shows that the bytes were read
  };

  int position_of(int section) const { return plan_.rank_of_section[static_cast<std::size_t>(section)]; }
  std::vector<Message> messages(int from, int to) const;
  // Returns the section to which `section` gives the gradient of the value: the user before it, or the maker.
  static int before(const Crossing& crossing, int section);
  void post(Sent sent);
  template <typename Is>
  void forget_sent(Is is);
  // Returns the index of a section's forward or backward pass of this micro-batch among all passes of its rank.
  int pass_of(int section, int micro, bool is_backward) const;
  at::Tensor take(const Key& key, int from);
  // Receives all messages of the step that have come from positions with many unread ones: a position's part of the
  // room. A sender without room has such a receiver. Returns true if there were any.
  bool receive_arrived(Mailbox& mailbox);
  // Waits for the next message from a position, and keeps its tensor. `timeline`: records the wait; null: none.
  void receive_next(int position, Timeline* timeline);
  int takers(const Crossing& crossing) const;

  Communicator& run_;
  const PipelineGrid grid_;
  const PipelinePlan& plan_;
  const ForwardPlan& forward_;
  Timeline* const timeline_;
  std::vector<int> crossing_of_value_;          // index of its crossing; -1: none
  std::vector<std::vector<Message>> expected_;  // by position: messages of one step to this rank
  std::vector<std::size_t> next_;               // by position: number of the next message
  std::map<Key, Kept> kept_;
  std::vector<Sent> sent_;
  int awaited_ = -1;  // position for whose next message this rank waits; -1: none
  std::int64_t sent_bytes_ = 0;
};

}  // namespace zero
