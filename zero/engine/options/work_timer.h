// WorkTimer: the seconds of a part of the engine, and its seconds of waiting for disk or link.
//
//   WorkTimer timer([&state] { return state.waited_seconds(); });
//   { const WorkTimer::Span span(timer); ... }     // counts when it ends; spans of one timer do not nest
//   timer.seconds() - timer.waited()                // without waits for transfers between tiers
//   timer.leave_out([&] { return seconds; });       // work inside a span that is counted elsewhere
//
// Local.
#pragma once

#include <functional>
#include <utility>

#include "zero/base/process/clock.h"

namespace zero {

class WorkTimer {
 public:
  using Waited = std::function<double()>;  // seconds so far
  explicit WorkTimer(Waited waited) : waited_so_far_(std::move(waited)) {}

  void leave_out(Waited elsewhere) { elsewhere_ = std::move(elsewhere); }
  double seconds() const { return seconds_; }
  double waited() const { return waited_; }

  class [[nodiscard]] Span {
   public:
    explicit Span(WorkTimer& timer)
        : timer_(timer), begin_(timer.own_seconds()), waited_at_begin_(timer.waited_so_far_()) {}
    ~Span() {
      timer_.waited_ += timer_.waited_so_far_() - waited_at_begin_;
      timer_.seconds_ += timer_.own_seconds() - begin_;
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    WorkTimer& timer_;
    double begin_;
    double waited_at_begin_;
  };

 private:
  double own_seconds() const { return monotonic_seconds() - (elsewhere_ ? elsewhere_() : 0); }

  Waited waited_so_far_, elsewhere_;
  double seconds_ = 0;
  double waited_ = 0;
};

}  // namespace zero
