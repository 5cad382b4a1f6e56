// Crossings: the tensors that cross between sections within one step, and their gradients.
//
//   Crossings crossings(run, line, plan, forward);
//   crossings.send_value(micro, value, x);                     // as soon as it is made
//   at::Tensor x = crossings.take_value(micro, value);         // at its first use in another section
//   crossings.send_gradient(micro, value, section, gradient);  // after that section's backward pass
//   crossings.take_gradient(micro, value, section);            // of the section that needs it
//   crossings.end_step();
//
// Messages between two ranks have a fixed order, which follows from the plan: that of the sender's passes, and within a
// pass that of the values. A receiver that needs a later message first takes the earlier ones and keeps them. Between
// two sections of one rank nothing is sent. The gradient of a value that several sections use passes from the last
// section to the first; each adds its own part, as autograd does without a pipeline.
//
// A rank that has many unread messages receives the messages of other ranks before it sends more. Otherwise two ranks
// could wait for each other, because a communicator holds a limited number of them.
//
// A sent value is kept until its gradient arrives. Other sent tensors are kept until a message arrives that their
// reader sent in a later pass, or until the step ends. Functions wait for the rank that computes the other section.
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

  void send_value(int micro, int value, const at::Tensor& tensor);
  at::Tensor take_value(int micro, int value);
  // `gradient` may be undefined. `section`: the section whose backward pass made it, with the parts of all later ones.
  void send_gradient(int micro, int value, int section, const at::Tensor& gradient);
  // The result may be undefined. `section`: the section that made the value, or one that uses it.
  at::Tensor take_gradient(int micro, int value, int section);
  // Waits until all tensors of this rank are read.
  void end_step();

  // Local. Returns the crossing of a value, or null.
  const Crossing* of_value(int value) const;
  std::int64_t sent_bytes() const { return sent_bytes_; }  // by all steps
  // Local. Returns the bytes that this rank sends in a step, by the plan.
  std::int64_t planned_bytes() const;

 private:
  struct Message {
    bool is_gradient = false;
    int micro = 0;
    int value = 0;
    int to = 0;    // section; of a value: the first on the receiving rank
    int pass = 0;  // of the sender: index in its order
  };
  using Key = std::tuple<bool, int, int, int>;  // as in Message; a value's section is -1
  struct Kept {
    at::Tensor tensor;
    int takers = 1;
  };
  struct Sent {
    Work work;
    at::Tensor bytes;
    int micro = 0;
    int value = 0;      // -1: a gradient
    int position = 0;   // of its reader
    int read_from = 0;  // a message that the reader sends in this pass, or later, says that it has read the bytes
  };

  // A message that is being received.
  struct Coming {
    Work work;
    at::Tensor bytes;  // undefined: the receive has not begun
  };

  int position_of(int section) const { return plan_.rank_of_section[static_cast<std::size_t>(section)]; }
  std::vector<Message> messages(int from, int to) const;
  // The section that receives the gradient of a value from `section`, or sends it there.
  static int before(const Crossing& crossing, int section);
  void post(Sent sent);
  template <typename Is>
  void forget_sent(Is is);
  // The index of the pass in which a section's rank runs this micro-batch's forward pass, or its backward pass.
  int pass_of(int section, int micro, bool is_backward) const;
  at::Tensor take(const Key& key, int from);
  bool has_room() const;
  // Receives messages until this rank may send more.
  void make_room();
  // Begins to receive the next message from a position, unless it has begun.
  Coming& begin_next(int position);
  // Returns a position whose next message has come; -1: none.
  int position_with_message();
  void receive_next(int position);
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
  std::vector<Coming> coming_;  // by position
  std::vector<Sent> sent_;
  bool holds_sends_ = false;  // true: the communicator holds messages until they are read
  std::int64_t sent_bytes_ = 0;
};

}  // namespace zero
