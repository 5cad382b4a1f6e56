// LineMerger: lines of several ranks on their way to one terminal. Each line is whole and has its rank as a prefix; a
// line that several ranks print is printed once, with all their numbers.
//
//   merger.add(0, "out of range", now);  merger.add(1, "out of range", now);
//   merger.take(now)   {"[ranks 0-1] out of range"}
//
// A line waits `window` for others to say the same, or until all have. Invariant: the lines of one rank keep their
// order; nothing is lost. Time is given, never read. Local; not thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

// "[rank 1] ", "[ranks 0-2 5] ". Ascending numbers.
std::string rank_prefix(std::span<const int> ranks);

class LineMerger {
 public:
  using Time = std::chrono::steady_clock::time_point;

  LineMerger(int num_ranks, std::chrono::milliseconds window) : num_ranks_(num_ranks), window_(window) {}

  void add(int rank, std::string line, Time now);
  // The lines whose time has come, with their prefixes, in order.
  std::vector<std::string> take(Time now);
  // Everything that is left.
  std::vector<std::string> take_all();
  // When the next line is due; nothing when none waits.
  std::optional<Time> due() const;
  // Of the lines that wait.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  struct Entry {
    std::string line;
    std::vector<int> ranks;  // ascending
    Time due;
  };
  std::string pop();

  int num_ranks_;
  std::chrono::milliseconds window_;
  std::deque<Entry> entries_;
  std::size_t held_bytes_ = 0;
};

// Bytes in, lines out. A line without an end is kept until its end comes, or until it is very long.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = 1 << 16;

  // Appends the lines that are complete, without their newline.
  void feed(std::string_view bytes, std::vector<std::string>& lines);
  // What is left at end of file; nothing when the last byte was a newline.
  std::optional<std::string> rest();

 private:
  std::string partial_;
};

}  // namespace zero
