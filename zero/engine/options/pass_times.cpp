#include "zero/engine/options/pass_times.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "zero/device/lane_times.h"

namespace zero {
namespace {

class HostPassTimes final : public PassTimes {
 public:
  HostPassTimes(std::size_t num_units, HostClocks clocks)
      : computed_(num_units, std::move(clocks.computed)), exchanged_(num_units, std::move(clocks.exchanged)) {}

  void comes(const Event& event) override {
    computed_.note(event);
    exchanged_.note(event);
  }
  void step_restarts() override {
    computed_.restart();
    exchanged_.restart();
  }
  const StepProfile& computed() const override { return computed_.profile(); }
  double forward_waits() const override { return exchanged_.profile().forward_seconds; }

 private:
  PassClock computed_, exchanged_;
};

// Times passes by marks in kCompute.
class LanePassTimes final : public PassTimes {
 public:
  LanePassTimes(Device& device, std::size_t num_units, Timeline* timeline)
      : device_(device),
        spans_(device, timeline),
        computed_(num_units, [this] { return at_ - waited_; }),
        waits_(num_units, [this] { return waited_; }) {}

  void comes(const Event& event) override {
    running_.push_back(
        {.event = {.kind = event.kind, .unit = event.unit, .pinned = {}, .micro_batch = event.micro_batch},
         .came = spans_.mark(Lane::kCompute)});
  }
  void goes_on() override { running_.back().went_on = spans_.mark(Lane::kCompute); }
  void step_ends() override {
    if (running_.empty()) return;
    steps_.push_back({std::exchange(running_, {}), spans_.mark(Lane::kCompute)});
    while (!steps_.empty() && device_.seconds_between(steps_.front().moments.front().came, steps_.front().end)) {
      read(steps_.front());
      steps_.pop_front();
    }
    spans_.read();
  }

  void step_restarts() override { running_.clear(); }

  const StepProfile& computed() const override { return computed_.profile(); }
  double forward_waits() const override { return waits_.profile().forward_seconds; }
  std::optional<DevicePasses> of_device() const override {
    const StepProfile &computed = computed_.profile(), &waits = waits_.profile();
    return DevicePasses{.forward_seconds = computed.forward_seconds + waits.forward_seconds,
                        .backward_seconds = computed.backward_seconds + waits.backward_seconds,
                        .waited_seconds = waits.forward_seconds + waits.backward_seconds};
  }

 private:
  struct Moment {
    Event event;
    Mark came, went_on{};  // the second is empty if the model could not wait
  };
  struct Step {
    std::vector<Moment> moments;
    Mark end;
  };

  // Reads a step that the device has finished.
  void read(const Step& step) {
    const Mark& begin = step.moments.front().came;
    waited_ = 0;
    const Moment* pass = nullptr;  // the pass of the moment
    const Moment* last = nullptr;
    for (const Moment& moment : step.moments) {
      at_ = seconds(begin, moment.came);
      computed_.note(moment.event);
      waits_.note(moment.event);
      show_passes(pass, last, moment);
      if (!moment.went_on.empty()) wait(moment);
      last = &moment;
    }
    if (last->event.kind == EventKind::kStep) spans_.show(Activity::kStep, -1, last->came, step.end);
  }

  // A backward pass ends with its last gradient, because the event kEndBackward may be long after it.
  void show_passes(const Moment*& pass, const Moment* last, const Moment& moment) {
    const EventKind kind = moment.event.kind;
    if (kind == EventKind::kAccess && pass == nullptr) pass = &moment;
    if (kind == EventKind::kBackward) {
      if (pass != nullptr) spans_.show(Activity::kForward, -1, pass->came, moment.came);
      pass = &moment;
    }
    if (kind != EventKind::kEndBackward || pass == nullptr) return;
    spans_.show(Activity::kBackward, -1, pass->came, last->went_on.empty() ? last->came : last->went_on);
    pass = nullptr;
  }

  void wait(const Moment& moment) {
    constexpr double kLeastShown = 1e-5;  // seconds between two marks without a wait
    const double seconds = this->seconds(moment.came, moment.went_on);
    waited_ += seconds;
    const EventKind kind = moment.event.kind;
    if (seconds < kLeastShown || (kind != EventKind::kAccess && kind != EventKind::kGradient)) return;
    const Activity activity = kind == EventKind::kAccess ? Activity::kWaitGather : Activity::kWaitReduce;
    spans_.show(activity, moment.event.unit, moment.came, moment.went_on);
  }

  double seconds(const Mark& from, const Mark& to) const { return device_.seconds_between(from, to).value_or(0); }

  Device& device_;
  LaneTimes spans_;
  std::vector<Moment> running_;
  std::deque<Step> steps_;  // steps that have ended on the host, and perhaps not on the device
  // While a step is read: seconds since its begin, and kCompute's waits in them.
  double at_ = 0, waited_ = 0;
  PassClock computed_, waits_;
};

}  // namespace

std::unique_ptr<PassTimes> make_pass_times(Device& device, std::size_t num_units, HostClocks host, Timeline* timeline) {
  if (device.host_readable()) return std::make_unique<HostPassTimes>(num_units, std::move(host));
  return std::make_unique<LanePassTimes>(device, num_units, timeline);
}

void PassClock::Pass::start(double now, std::size_t num_units) {
  begin = end = now;
  at.assign(num_units, -1);
}

void PassClock::Pass::meet(int unit, double now, bool again) {
  end = now;
  double& met = at[static_cast<std::size_t>(unit)];
  if (again || met < 0) met = now - begin;
}

std::vector<double> PassClock::Pass::shares(double unmet) const {
  std::vector<double> shares;
  for (const double met : at)
    shares.push_back(met < 0 ? unmet : seconds() > 0 ? std::clamp(met / seconds(), 0.0, 1.0) : unmet);
  return shares;
}

void PassClock::note(const Event& event) {
  const double now = computed_();
  switch (event.kind) {
    case EventKind::kAccess:
      if (in_backward_ && event.micro_batch == backward_of_) {
        backward_.end = now;
        return;
      }
      if (!std::exchange(in_forward_, true)) forward_.start(now, num_units_);
      forward_.meet(event.unit, now, /*again=*/false);
      return;
    case EventKind::kBackward:
      if (std::exchange(in_forward_, false)) {
        forward_.end = now;
        running_.forward_seconds += forward_.seconds();
        running_.used_at = forward_.shares(/*unmet=*/1);
      }
      backward_.start(now, num_units_);
      in_backward_ = true;
      backward_of_ = event.micro_batch;
      return;
    case EventKind::kGradient:
      backward_.meet(event.unit, now, /*again=*/true);
      return;
    case EventKind::kEndBackward:  // perhaps long after the last gradient
      running_.backward_seconds += backward_.seconds();
      running_.gradient_at = backward_.shares(/*unmet=*/0);
      in_backward_ = false;
      return;
    case EventKind::kStep:
      profile_ = std::exchange(running_, {});
      in_forward_ = false;
      return;
  }
}

void PassClock::restart() {
  running_ = {};
  in_forward_ = in_backward_ = false;
}

}  // namespace zero
