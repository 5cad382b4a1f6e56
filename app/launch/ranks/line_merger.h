// LineMerger: merges the lines of several ranks for one terminal.
//
//   merger.add(0, "out of range", now);  merger.add(1, "out of range", now);
//   merger.take(now)   {"[ranks 0-1] out of range"}
//
// Each line is whole and has its rank as a prefix. A line that several ranks print is printed once, with all their
// numbers. A line waits `patience` for the same line of other ranks, or until all ranks have printed it. Invariants:
// the lines of one rank keep their order; nothing is lost. The caller passes the time. Local; not thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zero {

// Returns "[rank 1] " or "[ranks 0-2 5] ". `ranks` ascend.
std::string rank_prefix(std::span<const int> ranks);

class LineMerger {
 public:
  using Time = std::chrono::steady_clock::time_point;

  LineMerger(int num_ranks, std::chrono::milliseconds patience) : num_ranks_(num_ranks), patience_(patience) {}

  void add(int rank, std::string line, Time now);
  // Removes and returns the lines that are due, with their prefixes, in order.
  std::vector<std::string> take(Time now);
  // Removes and returns all lines.
  std::vector<std::string> take_all();
  // Returns when the next line is due; nullopt if no line waits.
  std::optional<Time> due() const;
  // Returns the bytes of the lines that wait.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  struct Entry {
    std::string line;
    std::vector<int> ranks;  // ascending
    Time due;
  };
  std::string pop();

  int num_ranks_;
  std::chrono::milliseconds patience_;
  std::deque<Entry> entries_;
  std::size_t held_bytes_ = 0;
};

// Splits bytes into lines. Keeps a line without an end until its end arrives, or until it is very long.
class LineSplitter {
 public:
  static constexpr std::size_t kLongestLine = 1 << 16;

  // Appends the complete lines, without their newlines.
  void feed(std::string_view bytes, std::vector<std::string>& lines);
  // Returns the unfinished line at end of file; nullopt if the last byte was a newline.
  std::optional<std::string> rest();

 private:
  std::string partial_;
};

}  // namespace zero
