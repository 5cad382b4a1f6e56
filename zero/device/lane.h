// Lane: a queue of work on a device. Mark: a point in a lane, which another lane or the host can wait for.
//
//   const Mark there = device.mark(Lane::kUp);    // behind everything that is in that lane by now
//   device.wait(Lane::kCompute, there);           // what is queued in kCompute from now on runs after it
//
// On CUDA a lane is a stream and a mark is an event.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace zero {

// What a lane is for. kCompute is the one in which the model's operators run.
enum class Lane : std::uint8_t { kCompute, kGather, kReduce, kUpdate, kUp, kDown };
constexpr std::size_t kNumLanes = 6;
inline constexpr std::array kAllLanes{Lane::kCompute, Lane::kGather, Lane::kReduce,
                                      Lane::kUpdate,  Lane::kUp,     Lane::kDown};

constexpr std::string_view name_of(Lane lane) {
  constexpr std::array<std::string_view, kNumLanes> kNames{"compute", "gather", "reduce", "update", "up", "down"};
  return kNames[static_cast<std::size_t>(lane)];
}

// Copies stand for the same point. A mark of one device means nothing to another.
class Mark {
 public:
  Mark() = default;  // a point that every lane has passed
  explicit Mark(std::shared_ptr<const void> point) : point_(std::move(point)) {}

  bool empty() const { return point_ == nullptr; }
  // What the device that made it keeps there.
  template <typename Point>
  const Point& as() const {
    return *static_cast<const Point*>(point_.get());
  }

 private:
  std::shared_ptr<const void> point_;
};

}  // namespace zero
