// Random programs on a RecordedDevice, against a search in the graph of their order.
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/device/recorded_device.h"

namespace zero {
namespace {

constexpr std::size_t kBytes = 48;

struct Range {
  std::byte* data;
  std::size_t bytes;
};
void stir(const Range& a) {
  for (std::size_t i = 0; i < a.bytes; ++i)
    a.data[i] = static_cast<std::byte>(5 * std::to_integer<unsigned>(a.data[i]) + i + 1);
}
constexpr Kernel kStir = kernel_of<Range, &stir>("stir");

// The order of operations, edge by edge.
class Graph {
 public:
  using Node = std::size_t;

  Node add(std::initializer_list<Node> before) {
    std::vector<bool> reaches(before_.size() + 1, false);
    for (const Node node : before) {
      reaches[node] = true;
      for (Node other = 0; other < node; ++other)
        if (before_[node][other]) reaches[other] = true;
    }
    before_.push_back(std::move(reaches));
    return before_.size() - 1;
  }
  bool comes_before(Node earlier, Node later) const { return earlier < later && before_[later][earlier]; }

 private:
  std::vector<std::vector<bool>> before_;
};

using Step = std::array<std::uint8_t, 6>;  // read by Program::step()

// Runs random steps on a device and in the graph. `repaired`: an operation that would race first waits for all lanes.
class Program {
 public:
  Program(RecordedDevice& device, bool repaired) : device_(device), repaired_(repaired) {
    block_ = device.allocate(kBytes);
    pinned_ = device.allocate_pinned(kBytes);
    last_.fill(graph_.add({}));
  }

  // Returns the device's bytes and the host's.
  std::vector<std::byte> run(const std::vector<Step>& steps) {
    for (const Step& one : steps) step(one);
    join_all();
    std::vector<std::byte> end(pinned_.bytes().begin(), pinned_.bytes().end());
    device_.copy(Lane::kDown, pinned_.bytes(), block_.bytes());
    device_.join(device_.mark(Lane::kDown));
    end.insert(end.end(), pinned_.bytes().begin(), pinned_.bytes().end());
    return end;
  }
  // Operations that race with an earlier operation.
  const std::set<std::uint64_t>& racing() const { return racing_; }
  std::size_t size() const { return operations_.size(); }

 private:
  struct Point {
    Mark mark;
    Graph::Node node;
  };
  struct Known {
    Graph::Node node;
    std::vector<Access> accesses;
  };

  void step(const Step& s) {
    const Lane lane = kAllLanes[s[1] % 3U];
    const std::size_t begin = s[2] % kBytes, bytes = 1 + s[3] % std::min<std::size_t>(12, kBytes - begin);
    const std::span<std::byte> there = block_.bytes().subspan(begin, bytes),
                               here = pinned_.bytes().subspan(begin, bytes);
    switch (s[0] % 12) {
      case 0:
        return add(lane, {writes(there), reads(here)}, [&] { device_.copy(lane, there, here); });
      case 1:
        return add(lane, {writes(here), reads(there)}, [&] { device_.copy(lane, here, there); });
      case 2:
        return add(lane, {writes(there)}, [&] { device_.fill(lane, there, std::byte{s[4]}); });
      case 3:
        return add(lane, {changes(there)}, [&] {
          zero::run(device_, lane, kStir, Range{there.data(), bytes}, {changes(there)});
        });
      case 4:
        return add(lane, {changes(there)}, [&] {
          const std::array access{changes(there)};
          device_.touches(lane, access, "operator");
          stir({there.data(), bytes});
        });
      case 5:
        return add_host({changes(here)}, [&] {
          const std::array access{changes(here)};
          device_.host_touches(access, "host");
          stir({here.data(), bytes});
        });
      case 6:
        return points_.push_back(point(lane));
      case 7:
        return points_.empty() ? void() : wait(lane, points_[s[4] % points_.size()]);
      case 8:
        return points_.empty() ? void() : join(points_[s[4] % points_.size()]);
      case 9: {
        if (points_.empty()) return;
        const Point& passed = points_[s[4] % points_.size()];
        if (device_.done(passed.mark)) last_[kHostActor] = graph_.add({last_[kHostActor], passed.node});
        return;
      }
      case 10:
        return join(point(lane));
      default:
        return wait(lane, point(kAllLanes[s[4] % 3U]));
    }
  }

  Point point(Lane lane) { return {device_.mark(lane), graph_.add({last_[actor_of(lane)], last_[kHostActor]})}; }
  void wait(Lane lane, const Point& point) {
    device_.wait(lane, point.mark);
    last_[actor_of(lane)] = graph_.add({last_[actor_of(lane)], point.node});
  }
  void join(const Point& point) {
    device_.join(point.mark);
    last_[kHostActor] = graph_.add({last_[kHostActor], point.node});
  }
  void join_all() {
    for (const Lane lane : kAllLanes) join(point(lane));
  }

  template <typename Queue>
  void add(Lane lane, const std::vector<Access>& accesses, Queue queue) {
    Graph::Node node = graph_.add({last_[actor_of(lane)], last_[kHostActor]});
    if (repaired_ && races(node, accesses)) {
      for (const Lane other : kAllLanes) wait(lane, point(other));
      node = graph_.add({last_[actor_of(lane)], last_[kHostActor]});
    }
    know(last_[actor_of(lane)] = node, accesses);
    queue();
  }
  template <typename Touch>
  void add_host(const std::vector<Access>& accesses, Touch touch) {
    if (repaired_ && races(last_[kHostActor], accesses)) join_all();
    know(last_[kHostActor] = graph_.add({last_[kHostActor]}), accesses);
    touch();
  }
  void know(Graph::Node node, const std::vector<Access>& accesses) {
    if (races(node, accesses)) racing_.insert(operations_.size() + 1);
    operations_.push_back({node, accesses});
  }
  bool races(Graph::Node node, const std::vector<Access>& accesses) const {
    for (const Known& earlier : operations_)
      for (const Access& a : earlier.accesses)
        for (const Access& b : accesses)
          if ((a.writes || b.writes) && a.bytes.data() < b.bytes.data() + b.bytes.size() &&
              b.bytes.data() < a.bytes.data() + a.bytes.size() && earlier.node != node &&
              !graph_.comes_before(earlier.node, node))
            return true;
    return false;
  }

  RecordedDevice& device_;
  bool repaired_;
  Allocation block_, pinned_;
  Graph graph_;
  std::array<Graph::Node, kNumActors> last_{};
  std::vector<Point> points_;
  std::vector<Known> operations_;
  std::set<std::uint64_t> racing_;
};

std::set<std::uint64_t> later_of(const std::vector<Race>& races) {
  std::set<std::uint64_t> later;
  for (const Race& race : races) later.insert(race.later);
  return later;
}

RC_GTEST_PROP(RecordedPrograms, RaceUnlessTheGraphOrdersThem, (const std::vector<Step>& steps)) {
  RecordedDevice device({.on_race = OnRace::kList});
  Program program(device, /*repaired=*/false);
  program.run(steps);
  RC_CLASSIFY(program.racing().empty());
  RC_ASSERT(later_of(device.races()) == program.racing());
}

RC_GTEST_PROP(RecordedPrograms, ThrowAtTheFirstRace, (const std::vector<Step>& steps)) {
  std::set<std::uint64_t> racing;
  {
    RecordedDevice listed({.on_race = OnRace::kList});
    Program program(listed, /*repaired=*/false);
    program.run(steps);
    racing = later_of(listed.races());
  }
  RecordedDevice device;
  std::string thrown;
  try {
    Program(device, /*repaired=*/false).run(steps);
  } catch (const InternalError& error) {
    thrown = error.what();
  }
  RC_ASSERT(thrown.empty() == racing.empty());
  if (!racing.empty()) RC_ASSERT(device.races().front().later == *racing.begin());
}

// If work runs late, the verdict stays the same, with and without races. Without races the bits also stay the same, in
// every order.
RC_GTEST_PROP(RecordedPrograms, RaceFreeOnesKeepBits, (const std::vector<Step>& steps, std::uint64_t seed)) {
  RecordedDevice at_once;
  Program in_order(at_once, /*repaired=*/true);
  const std::vector<std::byte> expected = in_order.run(steps);
  RC_ASSERT(in_order.racing().empty());
  RecordedDevice late({.late = seed});
  Program program(late, /*repaired=*/true);
  RC_ASSERT(program.run(steps) == expected);
  RC_ASSERT(program.size() == in_order.size());

  RecordedDevice racy({.on_race = OnRace::kList, .late = seed});
  Program unrepaired(racy, /*repaired=*/false);
  unrepaired.run(steps);
  RC_ASSERT(later_of(racy.races()) == unrepaired.racing());
}

TEST(RecordedPrograms, RaceChangesBitsInSomeOrder) {
  const std::vector<Step> steps{{2, 0, 0, 11, 7}, {3, 1, 0, 11}};  // a fill and a kernel in different lanes
  std::set<std::vector<std::byte>> ends;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RecordedDevice device({.on_race = OnRace::kList, .late = seed});
    Program program(device, /*repaired=*/false);
    ends.insert(program.run(steps));
    EXPECT_EQ(later_of(device.races()), std::set<std::uint64_t>{2});
  }
  EXPECT_EQ(ends.size(), 2U);
}

}  // namespace
}  // namespace zero
