// Lane: a queue of work on a device. Mark: a point in a lane, for which another lane or the host can wait.
//
//   const Mark there = device.mark(Lane::kUp);    // after all work in that lane so far
//   device.wait(Lane::kCompute, there);           // later work of kCompute runs after it
//
// On CUDA a lane is a stream, and a mark is an event.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace zero {

// A lane's purpose. The model's operators run in kCompute.
enum class Lane : std::uint8_t { kCompute, kGather, kReduce, kUpdate, kUp, kDown };
constexpr std::size_t kNumLanes = 6;
inline constexpr std::array kAllLanes{Lane::kCompute, Lane::kGather, Lane::kReduce,
                                      Lane::kUpdate,  Lane::kUp,     Lane::kDown};

constexpr std::string_view name_of(Lane lane) {
  constexpr std::array<std::string_view, kNumLanes> kNames{"compute", "gather", "reduce", "update", "up", "down"};
  return kNames[static_cast<std::size_t>(lane)];
}

// Copies are the same point. A mark belongs to its device.
class Mark {
 public:
  Mark() = default;  // a point that every lane has passed
  explicit Mark(std::shared_ptr<const void> point) : point_(std::move(point)) {}

  bool empty() const { return point_ == nullptr; }
  // Returns the data of the device that made it.
  template <typename Point>
  const Point& as() const {
    return *static_cast<const Point*>(point_.get());
  }

 private:
  std::shared_ptr<const void> point_;
};

}  // namespace zero
